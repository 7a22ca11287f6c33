//! News of work: from another process through PostgreSQL, from the same one on SQLite.

use std::time::Duration;

use redrive_fixture::{Database, Postgres};
use redrive_store::{Store, StoreUrl};
use tokio::sync::watch;

use crate::support::{Place, eventually, job, open, wanted, within};

const SOON: Duration = Duration::from_secs(10);

async fn woken(news: &mut watch::Receiver<u64>, what: &str) {
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
    news.mark_unchanged();
    speaker.control().submit(vec![job("a")]).await.unwrap();
    woken(&mut news, "news of a run").await;
    speaker.control().enqueue(None, vec![wanted("ads", "1")]).await.unwrap();
    woken(&mut news, "news of a partition").await;
    let mut own = speaker.wakeups();
    own.mark_unchanged();
    speaker.control().submit(vec![job("b")]).await.unwrap();
    woken(&mut own, "news of its own run").await;
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
    store.control().enqueue(None, vec![wanted("ads", "1")]).await.unwrap();
    assert!(news.has_changed().unwrap());
    news.mark_unchanged();
    store.control().cancel_run(store.control().submit(vec![job("a")]).await.unwrap()[0].run_id, "me").await.unwrap();
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
        let submitted = speaker.control().submit(vec![job(&format!("{nth}"))]).await.unwrap();
        woken(&mut news, &format!("news of work right after opening, try {nth}")).await;
        speaker.control().cancel_run(submitted[0].run_id, "me").await.unwrap();
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
