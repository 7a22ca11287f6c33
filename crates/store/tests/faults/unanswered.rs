//! A PostgreSQL server, or a connection to it, that does not answer: every call ends, nothing is done twice, and work goes
//! on over new connections.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redrive_core::id::RunId;
use redrive_core::partition::Judgement;
use redrive_fixture::{Database, Durability, Postgres, Proxy};
use redrive_store::{ClaimedPartition, Error, Hurry, NewRun, Open, Options, Recorded, Store, StoreUrl};

use crate::support::{
    claim_partitions, claim_runs, count_at, eventually, job, one_line, operation, standing_still, wanted, within,
};

/// How long a call may take when nothing answers: it is tried on an old connection, and then on a new one.
const BOUND: Duration = Duration::from_secs(20);
/// How soon work goes on where new connections are served.
const SOON: Duration = Duration::from_secs(15);
const JOBS: &str = "SELECT count(*) FROM runs";

async fn open(url: &str, options: Options) -> Store {
    Store::open(&StoreUrl::parse(url).unwrap(), Open::Migrate, options).await.unwrap()
}

/// Has every connection of the pool used once.
async fn warm(store: &Store) {
    let looks = (0..16).map(|_| async { store.view().run_metrics(redrive_core::run::Workload::Process, 1).await });
    join_all(looks).await.into_iter().for_each(|look| drop(look.unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_ends_every_call_and_is_used_again_when_it_thaws() {
    let postgres = Postgres::start(Durability::Fast);
    let database = postgres.fresh_database();
    let store = open(&database.url, standing_still()).await;
    warm(&store).await;
    let frozen = postgres.freeze();
    let reads = async { store.view().partition(&wanted("ads", "1").state.key).await.map(drop) };
    let writes = async { store.control().submit(vec![job("a")]).await.map(drop) };
    let audited =
        async { store.control().enqueue(&operation(&store, "want"), vec![wanted("ads", "1")]).await.map(drop) };
    let schema = async { store.schema().await.map(drop) };
    let ended = within(BOUND, "the end of every call", async { tokio::join!(reads, writes, audited, schema) }).await;
    for ended in [ended.0, ended.1, ended.2, ended.3] {
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert!(error.is_transient());
        one_line(&error);
    }
    drop(frozen);
    within(SOON, "work after the thaw", store.control().submit(vec![job("b")])).await.unwrap();
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE external_id = 'b'"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_another_session_holds_is_not_waited_for_without_end() {
    let database = Postgres::shared().fresh_database();
    let store = open(&database.url, standing_still()).await;
    let held = database.hold("LOCK TABLE run_specs, partitions IN ACCESS EXCLUSIVE MODE");
    let look = async { store.view().run(RunId::from_uuid(uuid::Uuid::nil())).await.map(drop) };
    let submit = async { store.control().submit(vec![job("a")]).await.map(drop) };
    let ended = within(Duration::from_secs(12), "an answer", async { tokio::join!(look, submit) }).await;
    for ended in [ended.0, ended.1] {
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
        assert!(error.is_transient());
        assert!(one_line(&error).contains("another process has held its lock"), "{error}");
    }
    drop(held);
    store.control().submit(vec![job("b")]).await.unwrap();
    assert_eq!(count_at(&database, JOBS), 1, "what was refused is not there");
}

/// What is only to take effect goes to the server with the commit, which takes everything back when one of it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_together_with_its_commit_is_not_there_and_the_caller_knows() {
    let database = Postgres::shared().fresh_database();
    let store = open(&database.url, standing_still()).await;
    let unnamed = || NewRun::job("a", None, store.now());
    // Its statements are prepared by the first: preparing one would wait for the lock, too.
    store.control().submit(vec![unnamed()]).await.unwrap();
    let held = database.hold("LOCK TABLE run_queue IN ACCESS EXCLUSIVE MODE");
    let error =
        within(Duration::from_secs(12), "an answer", store.control().submit(vec![unnamed()])).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    drop(held);
    assert_eq!(count_at(&database, "SELECT count(*) FROM run_specs"), 1, "the first of two inserts was taken back");
    store.control().submit(vec![unnamed()]).await.unwrap();
    assert_eq!(count_at(&database, JOBS), 2, "the connection goes on");
}

/// A large statement is sent before its answer is asked for. When it fails, the error says why; not that the server refused what followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_statement_that_fails_on_its_own_says_why() {
    let database = Postgres::shared().fresh_database();
    let store = open(&database.url, standing_still()).await;
    let refusing = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'locked' USING ERRCODE = 'lock_not_available'; END$$";
    database.query(refusing);
    database.query("CREATE TRIGGER refuse BEFORE INSERT ON operation_changes FOR EACH ROW EXECUTE FUNCTION refuse()");
    let many = || (0..2000).map(|nth| wanted("ads", &nth.to_string())).collect();
    let control = store.control();
    let error = within(BOUND, "an answer", control.enqueue(&operation(&store, "want"), many())).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    database.query("DROP TRIGGER refuse ON operation_changes");
    control.enqueue(&operation(&store, "want"), many()).await.unwrap();
    assert_eq!(count_at(&database, "SELECT count(*) FROM partitions"), 2000, "once, on the connection that goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_over_new_connections_when_all_the_old_ones_hang() {
    let database = Postgres::shared().fresh_database();
    let proxy = Proxy::before(&database.url);
    let store = open(proxy.url(), standing_still()).await;
    warm(&store).await;
    let before = proxy.connections();
    proxy.swallow_present();
    let begun = Instant::now();
    let names: Vec<String> = (0..8).map(|nth| format!("job {nth}")).collect();
    let control = store.control();
    let submits = names.iter().map(|name| control.submit(vec![job(name)]));
    let submitted = within(SOON, "work over new connections", join_all(submits)).await;
    submitted.into_iter().for_each(|submitted| assert!(!submitted.unwrap()[0].existing));
    println!("went on after {:?}", begun.elapsed());
    assert!(proxy.connections() > before);
    assert_eq!(count_at(&database, JOBS), 8);
    // The pool keeps none of those that hang.
    within(Duration::from_secs(4), "every connection answers", warm(&store)).await;
}

async fn lose_the_answer_to(message: &str) -> (Database, Proxy, Store, Error) {
    let database = Postgres::shared().fresh_database();
    let proxy = Proxy::before(&database.url);
    let store = open(proxy.url(), standing_still()).await;
    proxy.swallow_answer_to(message.as_bytes());
    let error = within(BOUND, "an answer", store.control().submit(vec![job("a")])).await;
    (database, proxy, store, error.err().unwrap_or(Error::Input { what: "none", why: "none" }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_unknown_and_not_repeated() {
    let (database, _proxy, store, error) = lose_the_answer_to("COMMIT").await;
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    let text = one_line(&error);
    assert!(text.contains("not known whether") && text.contains("submit runs"), "{text}");
    assert_eq!(count_at(&database, JOBS), 1, "it was committed, once");
    assert!(store.control().submit(vec![job("a")]).await.unwrap()[0].existing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_without_an_answer_before_its_commit_is_run_again() {
    let (database, proxy, store, error) = lose_the_answer_to("START TRANSACTION").await;
    assert!(matches!(error, Error::Input { what: "none", .. }), "{error:?}");
    assert_eq!(count_at(&database, JOBS), 1);
    assert!(proxy.connections() > 1);
    drop(store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_a_hurry_ends_the_calls_that_are_under_way_and_those_that_come() {
    let postgres = Postgres::start(Durability::Fast);
    let database = postgres.fresh_database();
    let (hurry, proxy) = (Hurry::default(), Proxy::before(&database.url));
    let store = open(proxy.url(), Options { hurry: hurry.clone(), ..standing_still() }).await;
    warm(&store).await;
    let _frozen = postgres.freeze();
    let before = proxy.asked();
    let under_way = async { store.control().submit(vec![job("a")]).await.map(drop) };
    let told = async {
        eventually("the server is asked", async || proxy.asked() > before).await;
        hurry.allow(Duration::from_millis(500));
        Ok::<(), Error>(())
    };
    let (ended, _) = within(Duration::from_secs(3), "the call's end", async { tokio::join!(under_way, told) }).await;
    assert!(matches!(ended, Err(Error::Stopped { .. })), "{ended:?}");
    let next =
        within(Duration::from_secs(3), "the next one's end", store.view().partition(&wanted("ads", "1").state.key))
            .await;
    assert!(matches!(next, Err(Error::Stopped { .. })), "{next:?}");
    let url = StoreUrl::parse(&database.url).unwrap();
    let options = Options { hurry, ..standing_still() };
    let opened = within(Duration::from_secs(3), "opening", Store::open(&url, Open::Current, options)).await;
    assert!(matches!(opened, Err(Error::Stopped { .. })), "{opened:?}");
}

/// What a claim took is known to the worker that asked for it, although the answer to its commit was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_an_answer_is_found_again_by_its_task() {
    let database = Postgres::shared().fresh_database();
    let proxy = Proxy::before(&database.url);
    let store = open(proxy.url(), standing_still()).await;
    // So many first claims are in a bundle.
    let mut jobs: Vec<NewRun> = (0..20).map(|nth| job(&nth.to_string())).collect();
    jobs[0].payload = Some("7".to_owned());
    store.control().submit(jobs).await.unwrap();
    let partitions = vec![wanted("ads", "1"), wanted("ads", "2")];
    store.control().enqueue(&operation(&store, "want"), partitions).await.unwrap();

    proxy.swallow_answer_to(b"COMMIT");
    let claimed = within(BOUND, "an answer", store.data().claim_runs(claim_runs("w", 20))).await.unwrap();
    assert_eq!(count_at(&database, "SELECT count(*) FROM run_bundles"), 1);
    let payloads: Vec<_> = claimed.iter().map(|claimed| claimed.payload.as_deref()).collect();
    assert_eq!(payloads, [[Some("7")].as_slice(), &[None; 19]].concat());
    for claimed in claimed {
        let again = store.view().run(claimed.run.run_id).await.unwrap();
        assert_eq!(again, Some(claimed.run), "as it stands in the database");
    }

    proxy.swallow_answer_to(b"COMMIT");
    let (claimed, _) =
        within(BOUND, "an answer", store.data().claim_partitions(claim_partitions("w", 2))).await.unwrap();
    let mut customers: Vec<_> =
        claimed.iter().map(|claimed| claimed.partition.state.key.customer_id.as_str()).collect();
    customers.sort_unstable();
    assert_eq!(customers, ["1", "2"]);
    for ClaimedPartition { partition, run } in claimed {
        assert_eq!(partition.control.active.map(|active| active.run_id), Some(run.run_id));
        let judged = store.verdicts().judge(&run, Judgement::Accepted { records: 1 }, None).await.unwrap();
        assert!(matches!(judged, Recorded::As(_)), "{judged:?}");
    }
    assert_eq!(count_at(&database, "SELECT count(*) FROM partitions WHERE status = 'success'"), 2);
}
