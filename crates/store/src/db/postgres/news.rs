//! Wake-ups between processes: one connection that listens, and one task that announces.
//!
//! A transaction only marks that it made work. After its commit the process's own waiters are woken, and the announcer
//! tells the other processes. `pg_notify` inside the transactions would make all their commits wait for one lock of the
//! server. An announcement that is lost costs its hearers one poll.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use futures_util::{StreamExt, stream};
use redrive_core::run::Workload;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use super::address::{Address, CONNECT_PATIENCE};
use super::fault::{pool_error_text, within};
use super::kind::PROMPT;
use super::lent::Lent;
use crate::db::wakeups::{Tells, Wakeups, Workloads};

/// How long the announcer rests after an announcement; what is committed meanwhile shares the next one.
const REST: Duration = Duration::from_millis(2);
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How often the server is asked whether it is still there.
const STILL_THERE: Duration = Duration::from_secs(10);

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
    wake: watch::Sender<Wakeups>,
    /// The same for cancelled runs.
    cancelled: watch::Sender<u64>,
    /// What this process has committed and the announcer has yet to tell.
    committed: watch::Sender<Committed>,
    /// Marks announcements as this process's, which has heard of them.
    speaker: String,
}

/// How much a process has committed that others have to hear of.
#[derive(Debug, Clone, Copy, Default)]
struct Committed {
    wakeups: Wakeups,
    /// How many commits cancelled a run.
    cancels: u64,
}

/// What an announcement of a cancelled run says. The speaker comes first, and workloads with new work by their own words.
const CANCEL: &str = "cancel";

impl News {
    pub(super) fn new() -> Arc<Self> {
        let speaker = Uuid::now_v7().simple().to_string();
        let (wake, cancelled, committed) =
            (watch::channel(Wakeups::default()).0, watch::channel(0).0, watch::channel(Committed::default()).0);
        Arc::new(Self { wake, cancelled, committed, speaker })
    }

    pub(super) fn wakeups(&self) -> watch::Receiver<Wakeups> {
        self.wake.subscribe()
    }

    pub(super) fn cancels(&self) -> watch::Receiver<u64> {
        self.cancelled.subscribe()
    }

    /// Notes a commit that has something to tell. Never waits.
    pub(super) fn committed(&self, tells: Tells) {
        if tells == Tells::default() {
            return;
        }
        self.hear(tells);
        self.committed.send_modify(|committed| {
            committed.wakeups.count(tells.work);
            committed.cancels = committed.cancels.wrapping_add(u64::from(tells.cancel));
        });
    }

    fn hear(&self, tells: Tells) {
        if !tells.work.is_none() {
            self.wake.send_modify(|wakeups| wakeups.count(tells.work));
        }
        if tells.cancel {
            self.cancelled.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// What another process's announcement says; none where it is this one's.
    fn read(&self, payload: &str) -> Option<Tells> {
        let mut words = payload.split(' ');
        if words.next()? == self.speaker {
            return None;
        }
        let mut tells = Tells::default();
        for word in words {
            tells.cancel |= word == CANCEL;
            word.parse().into_iter().for_each(|workload| tells.work.add(workload));
        }
        Some(tells)
    }
}

/// Tells the other processes of commits, at most one announcement at a time: a burst of commits gives one.
pub(super) async fn announce(pool: Pool, news: Arc<News>) {
    let mut committed = news.committed.subscribe();
    let mut told = *committed.borrow();
    while committed.changed().await.is_ok() {
        let now = *committed.borrow_and_update();
        let workloads = now.wakeups.since(told.wakeups).each().map(Workload::as_str);
        let cancel = (now.cancels != told.cancels).then_some(CANCEL);
        let said: String = workloads.chain(cancel).flat_map(|word| [" ", word]).collect();
        let sql = format!("NOTIFY redrive, '{}{said}'", news.speaker);
        let sent = match Lent::from(&pool).await {
            Ok(client) => {
                let sent = within(PROMPT, client.batch_execute(&sql)).await;
                sent.map(|()| client.give_back()).map_err(|fault| fault.why())
            }
            Err(error) => Err(pool_error_text(&error)),
        };
        match sent {
            Ok(()) => told = now,
            // The next announcement says this, too.
            Err(error) => {
                tracing::debug!(error, "new work could not be announced; other processes find it when they poll");
            }
        }
        tokio::time::sleep(REST).await;
    }
}

/// Listens for announcements on a connection of its own, and connects again when that is lost.
pub(super) async fn listen(config: Config, tls: MakeRustlsConnect, news: Arc<News>) {
    let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_PATIENCE);
    loop {
        if let Ok(Ok((client, connection))) = tokio::time::timeout(patience, config.connect(tls.clone())).await {
            // One ends with the other.
            tokio::select! {
                () = hear(connection, &news) => {}
                () = subscribe(&client, &news) => {}
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Passes on what is announced, as long as the connection lasts.
async fn hear<T: AsyncRead + AsyncWrite + Unpin>(mut connection: Connection<Socket, T>, news: &News) {
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    while let Some(Ok(message)) = messages.next().await {
        if let AsyncMessage::Notification(note) = message
            && let Some(tells) = news.read(note.payload())
        {
            news.hear(tells);
        }
    }
}

/// Asks for announcements, and then once in a while whether the server is still there: one that says nothing looks like one
/// that has nothing to announce.
async fn subscribe(client: &Client, news: &News) {
    if within(PROMPT, client.batch_execute("LISTEN redrive")).await.is_err() {
        return;
    }
    // What was announced before this process listened is found by looking.
    news.hear(Tells { work: Workloads::EVERY, cancel: true });
    loop {
        tokio::time::sleep(STILL_THERE).await;
        if within(PROMPT, client.batch_execute("")).await.is_err() {
            return;
        }
    }
}
