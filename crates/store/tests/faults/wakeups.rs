//! News of work: from another process through PostgreSQL, from the same one on SQLite.

use std::time::Duration;

use redrive_core::run::Workload;
use redrive_fixture::{Database, Durability, Postgres};
use redrive_store::{Listen, Open, Options, Store, StoreUrl, Wakeups};
use tokio::sync::watch;

use crate::support::{Place, eventually, job, open, operation, standing_still, wanted, within};

const SOON: Duration = Duration::from_secs(10);
const BURST: u32 = 20;

async fn woken(news: &mut watch::Receiver<Wakeups>, what: &str) {
    within(SOON, what, news.changed()).await.unwrap();
    news.mark_unchanged();
}

/// Two stores on one database, of which the first listens.
async fn pair() -> (Database, Store, Store) {
    let database = Postgres::shared().fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let (listener, speaker) = (open(&url).await, open(&url).await);
    (database, listener, speaker)
}

fn listeners(database: &Database) -> String {
    database
        .query("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN redrive'")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_every_store_hears_of_work() {
    let (database, listener, speaker) = pair().await;
    eventually("both listen", async || listeners(&database) == "2").await;
    let mut news = listener.wakeups();
    let concerned = |then: Wakeups, now: Wakeups| {
        Workload::ALL.iter().copied().filter(|kind| then.of(*kind) != now.of(*kind)).collect::<Vec<_>>()
    };
    let before = *news.borrow_and_update();
    speaker.control().submit(vec![job("a")]).await.unwrap();
    woken(&mut news, "news of a run").await;
    let then = *news.borrow();
    assert_eq!(concerned(before, then), [Workload::Process]);
    speaker.control().enqueue(&operation(&speaker, "want"), vec![wanted("ads", "1")]).await.unwrap();
    woken(&mut news, "news of a partition").await;
    assert_eq!(concerned(then, *news.borrow()), [Workload::Extract]);
    let mut own = speaker.wakeups();
    own.mark_unchanged();
    speaker.control().submit(vec![job("b")]).await.unwrap();
    woken(&mut own, "news of its own run").await;
}

/// The server lets one transaction with an announcement commit at a time; here the first does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_waits_for_an_announcement_and_a_burst_of_them_gives_one() {
    let server = Postgres::start(Durability::Fast);
    let database = server.fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let (listener, speaker) = (open(&url).await, open(&url).await);
    eventually("both listen", async || listeners(&database) == "2").await;
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.query("SELECT pg_reload_conf()");
    let news = listener.wakeups();
    let jobs = || news.borrow().of(Workload::Process);
    let before = jobs();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            database.query("SET synchronous_commit = on; CREATE TABLE held (); NOTIFY redrive, 'held process'")
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
                eventually("an announcement is held", async || database.query(held) == "1").await;
                for nth in 0..BURST {
                    let submitted = speaker.control();
                    within(SOON, "a commit", submitted.submit(vec![job(&nth.to_string())])).await.unwrap();
                }
                server.query("ALTER SYSTEM RESET synchronous_standby_names");
                server.query("SELECT pg_reload_conf()");
            });
        });
    });
    // The one that was held, the one that waited behind it, and one for all that were committed meanwhile.
    eventually("the burst is heard of", async || jobs() >= before + 3).await;
    speaker.control().submit(vec![job("last")]).await.unwrap();
    eventually("the last is heard of", async || jobs() >= before + 4).await;
    let speaking = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'NOTIFY redrive%' \
                    AND (state <> 'idle' OR clock_timestamp() - state_change < interval '200 ms')";
    eventually("the announcer has no more to say", async || database.query(speaking) == "0").await;
    assert_eq!(jobs(), before + 4);
}

/// A worker that is woken too early looks, finds nothing, and goes to sleep beside the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_woken_before_the_commit() {
    let server = Postgres::start(Durability::Fast);
    let database = server.fresh_database();
    let url = format!("{}?options=-c%20synchronous_commit%3Don", database.url);
    // One that listens looks around once when it begins to.
    let options = Options { listen: Listen::Never, ..standing_still() };
    let store = Store::open(&StoreUrl::parse(&url).unwrap(), Open::Migrate, options).await.unwrap();
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.query("SELECT pg_reload_conf()");
    let mut news = store.wakeups();
    news.mark_unchanged();
    let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let submitted = loop {
        let control = store.control();
        let submitted = tokio::spawn(async move { control.submit(vec![job("slow")]).await });
        eventually("the commit is held", async || submitted.is_finished() || database.query(held) == "1").await;
        if !submitted.is_finished() {
            break submitted;
        }
        // The server heeds a setting a moment after it was told to.
        woken(&mut news, "news of a commit that was not held").await;
    };
    assert!(!news.has_changed().unwrap(), "woken before there is work to see");
    server.query("ALTER SYSTEM RESET synchronous_standby_names");
    server.query("SELECT pg_reload_conf()");
    submitted.await.unwrap().unwrap();
    woken(&mut news, "news of the commit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_the_same_store_hears_of_work() {
    let place = Place::new();
    let store = open(&place.url()).await;
    let mut news = store.data().wakeups();
    news.mark_unchanged();
    store.control().submit(vec![job("a")]).await.unwrap();
    assert!(news.has_changed().unwrap());
    news.mark_unchanged();
    store.control().enqueue(&operation(&store, "want"), vec![wanted("ads", "1")]).await.unwrap();
    assert!(news.has_changed().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_submitted_right_after_opening_is_heard_of() {
    let (database, _, speaker) = pair().await;
    let url = StoreUrl::parse(&database.url).unwrap();
    for nth in 0..5 {
        let listener = open(&url).await;
        let mut news = listener.wakeups();
        // A worker would look now, find nothing, and then wait for news.
        assert!(listener.data().claim_runs(crate::support::claim_runs("w", 1)).await.unwrap().is_empty());
        speaker.control().submit(vec![job(&format!("{nth}"))]).await.unwrap();
        woken(&mut news, &format!("news of work right after opening, try {nth}")).await;
        assert_eq!(listener.data().claim_runs(crate::support::claim_runs("w", 1)).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_submitted_while_nobody_could_listen_is_heard_of_afterwards() {
    let (database, listener, speaker) = pair().await;
    eventually("both listen", async || listeners(&database) == "2").await;
    let mut news = listener.wakeups();
    news.mark_unchanged();
    let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE datname = current_database() AND query = 'LISTEN redrive'";
    assert_eq!(database.query(terminate), "2");
    woken(&mut news, "a look around because the connection is lost").await;
    // The listener has looked and found nothing; it is not back yet when this is said.
    speaker.control().submit(vec![job("unheard")]).await.unwrap();
    woken(&mut news, "news of what was said in the meantime").await;
    eventually("both listen again", async || listeners(&database) == "2").await;
    news.mark_unchanged();
    speaker.control().submit(vec![job("heard")]).await.unwrap();
    woken(&mut news, "news after coming back").await;
}
