//! PgBouncer between the store and its server, which gives each transaction whatever connection is free.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::run::{End, Verdict};
use redrive_fixture::{Database, Durability, PgBouncer, Postgres};
use redrive_store::{Listen, Open, Options, Recorded, Store, StoreUrl};

use crate::support::{
    assert_whole, claim_partitions, claim_runs, count_at, eventually, job, open, operation, standing_still, wanted,
    within,
};

const CALLERS: usize = 6;
const ROUNDS: usize = 10;

struct Pooled {
    server: Postgres,
    database: Database,
    url: StoreUrl,
    pooler: PgBouncer,
}

fn pooled(connections: u16) -> Pooled {
    let server = Postgres::start(Durability::Fast);
    let database = server.fresh_database();
    let pooler = PgBouncer::start(&server, connections);
    let url = StoreUrl::parse(&pooler.url(name(&database))).unwrap();
    Pooled { server, database, url, pooler }
}

fn name(database: &Database) -> &str {
    database.url.rsplit('/').next().unwrap()
}

fn through_a_pooler() -> Options {
    Options { listen: Listen::Never, prepared: false, connections: 8, follow_database_clock: true, ..standing_still() }
}

async fn call(store: Store, caller: usize) {
    let (control, data) = (store.control(), store.data());
    for nth in 0..ROUNDS {
        let name = format!("{caller}-{nth}");
        control.submit(vec![job(&name)]).await.unwrap();
        control.enqueue(&operation(&store, "enqueue"), vec![wanted("ads", &name)]).await.unwrap();
        data.claim_partitions(claim_partitions(&name, 1)).await.unwrap();
        let claimed = data.claim_runs(claim_runs(&name, 2)).await.unwrap();
        let done = End::Completed { verdict: Verdict::Passed, metrics: None };
        let reports: Vec<_> = claimed.into_iter().map(|claimed| (claimed.run, done.clone())).collect();
        for recorded in data.record(reports).await.unwrap() {
            assert!(matches!(recorded, Recorded::As(_)), "{recorded:?}");
        }
        assert!(store.view().partition(&wanted("ads", &name).state.key).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_works_through_a_pooler_that_shares_connections_by_transaction() {
    let Pooled { database, url, server: _server, pooler: _pooler } = pooled(3);
    let store = Store::open(&url, Open::Migrate, through_a_pooler()).await.unwrap();
    let callers: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(call(store.clone(), caller))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let all = u64::try_from(CALLERS * ROUNDS).unwrap();
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE state = 'done'"), all);
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE state = 'running'"), all);
    assert_whole(&store, |sql| count_at(&database, sql)).await;
}

/// PgBouncer keeps track of prepared statements only where it is told to, and older ones cannot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_loses_prepared_statements_is_named() {
    let pooled = pooled(3);
    let options = Options { prepared: true, ..through_a_pooler() };
    let store = Store::open(&pooled.url, Open::Migrate, options).await.unwrap();
    let mut told = None;
    // Until a statement comes to a connection that it was not prepared on.
    for round in 0..50 {
        let asked = (0..CALLERS).map(|caller| {
            let (control, name) = (store.control(), format!("{round}-{caller}"));
            let jobs = (0..20).map(|nth| job(&format!("{name}-{nth}"))).collect();
            tokio::spawn(async move { control.submit(jobs).await.map(drop) })
        });
        for answer in asked.collect::<Vec<_>>() {
            told = told.or(answer.await.unwrap().err());
        }
        if told.is_some() {
            break;
        }
    }
    let told = told.expect("this pooler keeps track of prepared statements").to_string();
    assert!(told.contains("set prepared = false"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_leaves_nothing_behind_on_the_connection_that_it_had() {
    let pooled = pooled(1);
    let store = Store::open(&pooled.url, Open::Migrate, through_a_pooler()).await.unwrap();
    store.control().submit(vec![job("a")]).await.unwrap();
    assert_eq!(store.data().claim_runs(claim_runs("w", 1)).await.unwrap().len(), 1);
    store.data().claim_partitions(claim_partitions("w", 1)).await.unwrap();
    store.view().due_bands().await.unwrap();
    // The only connection that there is, which all of them had.
    let asked = "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name <> 'application_name' \
                 AND name <> 'client_encoding'";
    assert_eq!(pooled.pooler.query(name(&pooled.database), asked), "0");
    assert_eq!(count_at(&pooled.database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_behind_a_pooler_listens_at_the_server() {
    let pooled = pooled(2);
    let direct = pooled.database.url.clone();
    let options = Options { listen: Listen::At(direct.clone()), ..through_a_pooler() };
    let behind = Store::open(&pooled.url, Open::Migrate, options).await.unwrap();
    let before = open(&StoreUrl::parse(&direct).unwrap()).await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN redrive'";
    eventually("both listen", async || count_at(&pooled.database, listening) == 2).await;
    for (speaker, listener) in [(&before, &behind), (&behind, &before)] {
        let mut news = listener.wakeups();
        news.mark_unchanged();
        speaker.control().submit(vec![job("news")]).await.unwrap();
        within(Duration::from_secs(10), "news past the pooler", news.changed()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_listen_hears_its_own_work_only() {
    let pooled = pooled(2);
    let store = Arc::new(Store::open(&pooled.url, Open::Migrate, through_a_pooler()).await.unwrap());
    let mut news = store.wakeups();
    assert_eq!(count_at(&pooled.database, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"), 0);
    news.mark_unchanged();
    store.control().submit(vec![job("own")]).await.unwrap();
    assert!(news.has_changed().unwrap());
}
