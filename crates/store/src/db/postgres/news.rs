//! Wake-ups between processes: one connection that listens, and one task that announces.
//!
//! A transaction only marks that it made work. After its commit the process's own waiters are woken, and the announcer
//! tells the other processes. `pg_notify` inside the transactions would make all their commits wait for one lock of the
//! server. An announcement that is lost costs its hearers one poll.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use super::address::Address;
use super::fault::{error_text, pool_error_text};

/// How long the announcer rests after an announcement; what is committed meanwhile shares the next one.
const REST: Duration = Duration::from_millis(2);
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Where a store on PostgreSQL listens for work that other processes make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Listen {
    /// On a connection to the store's own address.
    #[default]
    Same,
    /// On a connection to this address: the server's, where the store's own leads to a pooler, through which no
    /// announcement arrives.
    At(String),
    /// Nowhere: what other processes make is found by polling.
    Never,
}

impl Listen {
    pub(super) fn address(&self, of_store: &Address) -> Result<Option<Address>, String> {
        match self {
            Self::Same => Ok(Some(of_store.clone())),
            Self::At(url) => Address::parse(url).map(Some),
            Self::Never => Ok(None),
        }
    }
}

/// Counts up whenever there may be new work, and passes it on to the other processes.
#[derive(Debug)]
pub(super) struct News {
    /// For the waiters of this process.
    wake: watch::Sender<u64>,
    /// What this process has committed and the announcer has yet to tell.
    committed: watch::Sender<u64>,
    /// Marks announcements as this process's, which has heard of them.
    speaker: String,
}

impl News {
    pub(super) fn new() -> Arc<Self> {
        let speaker = Uuid::now_v7().simple().to_string();
        Arc::new(Self { wake: watch::channel(0).0, committed: watch::channel(0).0, speaker })
    }

    pub(super) fn wakeups(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// Notes a commit that made work. Never waits.
    pub(super) fn committed(&self) {
        self.hear();
        self.committed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn hear(&self) {
        self.wake.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Tells the other processes of commits, at most one announcement at a time: a burst of commits gives one.
pub(super) async fn announce(pool: Pool, news: Arc<News>) {
    let sql = format!("NOTIFY redrive, '{}'", news.speaker);
    let mut committed = news.committed.subscribe();
    while committed.changed().await.is_ok() {
        let sent = match pool.get().await {
            Ok(client) => client.batch_execute(&sql).await.map_err(|error| error_text(&error)),
            Err(error) => Err(pool_error_text(&error)),
        };
        if let Err(error) = sent {
            tracing::debug!(error, "new work could not be announced; other processes find it when they poll");
        }
        tokio::time::sleep(REST).await;
    }
}

/// Listens for announcements on a connection of its own, and connects again when that is lost.
pub(super) async fn listen(config: Config, tls: MakeRustlsConnect, news: Arc<News>) {
    loop {
        if let Ok((client, mut connection)) = config.connect(tls.clone()).await {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context)).fuse();
            let mut listening = Box::pin(client.batch_execute("LISTEN redrive").fuse());
            loop {
                futures_util::select! {
                    done = listening => {
                        if done.is_err() {
                            break;
                        }
                        // What was announced before this process listened is found by looking.
                        news.hear();
                    },
                    message = messages.next() => match message {
                        Some(Ok(AsyncMessage::Notification(note))) if note.payload() == news.speaker => {}
                        Some(Ok(AsyncMessage::Notification(_))) => news.hear(),
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    },
                }
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}
