//! A PostgreSQL server whose own idea of order is a language's. Keys are ordered by bytes all the same.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_fixture::{Database, Postgres};
use redrive_store::{PartitionClaim, Store, StoreUrl};

use crate::support::{claim_partitions, open, operation, wanted, within};

/// A database that sorts as English does, beside `home`; none, after `skip`, where the server cannot.
async fn english(home: &Database) -> Option<(Store, Dropped<'_>)> {
    if home.query("SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") == "0" {
        redrive_fixture::skip("this PostgreSQL is built without ICU");
        return None;
    }
    let own = home.query("SELECT current_database()");
    let name = format!("{own}_english");
    home.query(&format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"));
    let url = StoreUrl::parse(&home.url.replace(&own, &name)).unwrap();
    Some((open(&url).await, Dropped { home, name }))
}

struct Dropped<'a> {
    home: &'a Database,
    name: String,
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.home.query(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

#[tokio::test]
async fn a_source_at_its_limit_is_passed_over_in_any_language() {
    let home = Postgres::shared().fresh_database();
    let Some((store, _dropped)) = english(&home).await else { return };
    let ads = (0..5).map(|nth| wanted("ads", &format!("{nth}")));
    store
        .control()
        .enqueue(&operation(&store, "want"), ads.chain([wanted("ads-2", "x"), wanted("Zoo", "x")]).collect())
        .await
        .unwrap();
    let limited = || {
        let max_in_flight = BTreeMap::from([("ads".parse().unwrap(), 1)]);
        PartitionClaim { max_in_flight, ..claim_partitions("w", 2) }
    };
    let mut sources = Vec::new();
    for _ in 0..3 {
        let claim = within(Duration::from_secs(5), "a claim", store.data().claim_partitions(limited())).await;
        sources.extend(claim.unwrap().0.into_iter().map(|claimed| claimed.partition.state.key.source.to_string()));
    }
    sources.sort();
    assert_eq!(sources, ["Zoo", "ads", "ads-2"]);
}

#[tokio::test]
async fn customers_take_turns_in_any_language() {
    let home = Postgres::shared().fresh_database();
    let Some((store, _dropped)) = english(&home).await else { return };
    let customers = ["a", "B", "_c", "d e", "D-e", "é", "1", "Z"];
    let all = customers.iter().map(|customer| wanted("ads", customer)).collect();
    store.control().enqueue(&operation(&store, "want"), all).await.unwrap();
    let mut claim = claim_partitions("w", 1);
    let mut served = Vec::new();
    while served.len() < customers.len() {
        let next = within(Duration::from_secs(5), "a claim", store.data().claim_partitions(claim.clone())).await;
        let (claimed, rotation) = next.unwrap();
        assert_eq!(claimed.len(), 1, "after {served:?}");
        served.push(claimed[0].partition.state.key.customer_id.to_string());
        claim.rotation = rotation;
    }
    served.sort();
    let mut expected = customers.map(str::to_owned);
    expected.sort();
    assert_eq!(served, expected);
}
