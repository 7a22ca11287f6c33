//! Customers take turns: nobody waits because somebody else has more.

use std::collections::BTreeMap;

use redrive_core::lane::Lane;
use redrive_store::{PartitionClaim, Rotation};

use crate::steps::{claim, keys};
use crate::support::TestStore;

async fn take(subject: &TestStore, rotation: &mut Rotation, limit: u32) -> Vec<String> {
    let asked = PartitionClaim { rotation: rotation.clone(), ..claim(limit) };
    let (claimed, next) = subject.store.data().claim_partitions(asked).await.unwrap();
    *rotation = next;
    claimed.into_iter().map(|claimed| claimed.partition.state.key.customer_id.to_string()).collect()
}

fn counted(customers: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for customer in customers {
        *counts.entry(customer).or_default() += 1;
    }
    counts
}

/// RP-6.3
async fn one_customer_with_thousands_starves_nobody(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["big"], 3000)).await;
    let small: Vec<String> = (0..20).map(|nth| format!("{}-{nth}", if nth % 2 == 0 { "a" } else { "z" })).collect();
    let small: Vec<&str> = small.iter().map(String::as_str).collect();
    subject.want(Lane::Fresh, keys("ads", &small, 2)).await;
    let (mut rotation, mut served) = (Rotation::default(), Vec::new());
    for _ in 0..5 {
        served.extend(take(&subject, &mut rotation, 5).await);
    }
    let once = counted(served.clone());
    assert_eq!(once.len(), 21, "25 claims serve each of 21 customers: {once:?}");
    for _ in 0..4 {
        served.extend(take(&subject, &mut rotation, 5).await);
    }
    let twice = counted(served);
    assert!(small.iter().all(|customer| twice[*customer] == 2), "{twice:?}");
}

/// RP-6.3
async fn a_large_claim_is_shared_among_customers(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["big"], 500)).await;
    subject.want(Lane::Fresh, keys("ads", &["a", "b", "z"], 5)).await;
    let served = counted(take(&subject, &mut Rotation::default(), 40).await);
    let expected = [("a", 5), ("b", 5), ("big", 25), ("z", 5)];
    assert_eq!(served, expected.map(|(customer, count)| (customer.to_owned(), count)).into());
}

async fn the_rotation_comes_round_to_the_beginning(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b", "c"], 6)).await;
    let mut rotation = Rotation::default();
    for expected in [["a", "b"], ["c", "a"], ["b", "c"], ["a", "b"], ["c", "a"]] {
        assert_eq!(take(&subject, &mut rotation, 2).await, expected);
    }
    assert_eq!(take(&subject, &mut rotation, 4).await, ["b", "c", "a", "b"]);
}

/// CP-4.1: within a customer, what has waited longest goes first.
async fn a_customers_oldest_wish_goes_first(subject: TestStore) {
    let days = keys("ads", &["a"], 3);
    for key in [&days[2], &days[0], &days[1]] {
        subject.want(Lane::Fresh, vec![key.clone()]).await;
        subject.clock.advance(std::time::Duration::from_secs(1));
    }
    let claimed = subject.claim(3).await;
    let order: Vec<_> = claimed.iter().map(|claimed| &claimed.partition.state.key).collect();
    assert_eq!(order, [&days[2], &days[0], &days[1]]);
}

/// What a lane leaves over is given out again; customers who have nothing left must not stand in the way.
async fn a_claim_is_filled_although_the_first_in_turn_have_nothing_left(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b", "c", "d"], 1)).await;
    subject.want(Lane::Fresh, keys("ads", &["e", "f"], 50)).await;
    let served = counted(take(&subject, &mut Rotation::default(), 10).await);
    assert_eq!(served.values().sum::<usize>(), 10, "104 are claimable: {served:?}");
}

crate::on_both_databases!(
    one_customer_with_thousands_starves_nobody,
    a_large_claim_is_shared_among_customers,
    the_rotation_comes_round_to_the_beginning,
    a_customers_oldest_wish_goes_first,
    a_claim_is_filled_although_the_first_in_turn_have_nothing_left,
);
