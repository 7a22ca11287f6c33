//! Lanes share claims by their shares, and what one does not use goes to the others.

use std::collections::BTreeMap;

use redrive_core::lane::Lane;
use redrive_store::{ClaimedPartition, PartitionClaim, Rotation};

use crate::steps::{claim, keys};
use crate::support::TestStore;

fn by_lane(claimed: &[ClaimedPartition]) -> BTreeMap<Lane, usize> {
    let mut counts = BTreeMap::new();
    for claimed in claimed {
        *counts.entry(claimed.partition.control.wanted.unwrap().lane).or_default() += 1;
    }
    counts
}

/// Claims of one worker after another, each going on where the last one stopped.
async fn claims(subject: &TestStore, rotation: &mut Rotation, limit: u32, times: usize) -> Vec<ClaimedPartition> {
    let mut all = Vec::new();
    for _ in 0..times {
        let asked = PartitionClaim { rotation: rotation.clone(), ..claim(limit) };
        let (claimed, next) = subject.store.data().claim_partitions(asked).await.unwrap();
        assert!(claimed.len() <= limit as usize, "asked for {limit}, got {}", claimed.len());
        *rotation = next;
        all.extend(claimed);
    }
    all
}

async fn fill_all_lanes(subject: &TestStore, days: usize) {
    for (&lane, source) in Lane::ALL.iter().zip(["a", "b", "c"]) {
        subject.want(lane, keys(source, &["1", "2", "3"], days)).await;
    }
}

/// RP-6.3
async fn shares_hold_over_many_small_claims(subject: TestStore) {
    fill_all_lanes(&subject, 40).await;
    for limit in [1, 3] {
        let claimed = claims(&subject, &mut Rotation::default(), limit, 30).await;
        let times = limit as usize * 3;
        let expected = [(Lane::Fresh, 6 * times), (Lane::Retry, 3 * times), (Lane::Backfill, times)];
        assert_eq!(by_lane(&claimed), expected.into(), "claims of {limit}");
    }
}

/// RP-6.3
async fn shares_hold_within_one_large_claim(subject: TestStore) {
    fill_all_lanes(&subject, 40).await;
    let claimed = claims(&subject, &mut Rotation::default(), 100, 1).await;
    assert_eq!(by_lane(&claimed), [(Lane::Fresh, 60), (Lane::Retry, 30), (Lane::Backfill, 10)].into());
}

/// RP-6.3
async fn what_a_lane_does_not_use_goes_to_the_others(subject: TestStore) {
    subject.want(Lane::Fresh, keys("a", &["1"], 2)).await;
    subject.want(Lane::Backfill, keys("c", &["1", "2"], 40)).await;
    let claimed = claims(&subject, &mut Rotation::default(), 20, 1).await;
    assert_eq!(by_lane(&claimed), [(Lane::Fresh, 2), (Lane::Backfill, 18)].into());
    let claimed = claims(&subject, &mut Rotation::default(), 1, 5).await;
    assert_eq!(by_lane(&claimed), [(Lane::Backfill, 5)].into());
    assert_eq!(claims(&subject, &mut Rotation::default(), 100, 1).await.len(), 57);
    assert!(claims(&subject, &mut Rotation::default(), 100, 1).await.is_empty());
}

/// RP-6.3: neither starves the other.
async fn fresh_work_behind_a_large_backfill_is_claimed_at_once_and_leaves_it_its_share(subject: TestStore) {
    let customers: Vec<String> = (0..20).map(|nth| format!("customer-{nth:02}")).collect();
    let customers: Vec<&str> = customers.iter().map(String::as_str).collect();
    subject.want(Lane::Backfill, keys("ads", &customers, 1000)).await;
    let mut rotation = Rotation::default();
    assert_eq!(by_lane(&claims(&subject, &mut rotation, 10, 3).await), [(Lane::Backfill, 30)].into());

    subject.want(Lane::Fresh, keys("zzz", &["late"], 8)).await;
    let claimed = claims(&subject, &mut rotation, 10, 2).await;
    assert_eq!(by_lane(&claimed), [(Lane::Fresh, 8), (Lane::Backfill, 12)].into());

    let mut flow = BTreeMap::new();
    for round in 0..20 {
        subject.want(Lane::Fresh, keys(&format!("flow-{round}"), &["late"], 10)).await;
        for (lane, count) in by_lane(&claims(&subject, &mut rotation, 10, 1).await) {
            *flow.entry(lane).or_insert(0) += count;
        }
    }
    assert_eq!(flow.values().sum::<usize>(), 200);
    assert!(flow[&Lane::Backfill] >= 20, "{flow:?}");
    assert!(flow[&Lane::Fresh] >= 120, "{flow:?}");
}

crate::on_both_databases!(
    shares_hold_over_many_small_claims,
    shares_hold_within_one_large_claim,
    what_a_lane_does_not_use_goes_to_the_others,
    fresh_work_behind_a_large_backfill_is_claimed_at_once_and_leaves_it_its_share,
);
