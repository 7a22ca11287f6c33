//! The sender: a pass gives new notifications to their receivers and delivers what is due. Any number of senders may be at
//! work, because each delivery is taken under a lease. A receiver that is down is tried again, later and later, for as long as
//! it takes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::count;
use redrive_core::notice::{Notice, NoticeWords};
use redrive_core::retry::{Backoff, RetryPolicy};
use redrive_core::text::{cut, one_line};
use redrive_core::time::Timestamp;
use redrive_store::clock::Clock;
use redrive_store::{Delivery, Notification, Outbox, Result};

use super::receiver::{Envelope, Receiver};

/// How many deliveries to one receiver are under way at once.
const AT_ONCE: u32 = 16;
/// Longer than any delivery may take, so that nobody sends what another is sending.
const LEASE: Duration = Duration::from_secs(120);
/// What is older is no news to a receiver that has just been configured.
const NEWS: Duration = Duration::from_secs(7 * 86_400);
/// How long what was delivered is remembered.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
const LONGEST_ERROR: usize = 500;

/// Works through the outbox.
#[derive(Debug, Clone)]
pub struct Sender {
    outbox: Outbox,
    clock: Arc<dyn Clock>,
    receivers: Arc<Vec<Receiver>>,
    words: NoticeWords,
    instance: String,
    /// Where people reach the server, without a slash at its end.
    public_url: Option<String>,
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub delivered: u64,
    pub failed: u64,
}

impl Sender {
    /// A sender to these receivers, which are told in these words what they can do. No delivery may take longer than a minute
    /// and a half.
    pub fn new(outbox: Outbox, clock: Arc<dyn Clock>, receivers: Vec<Receiver>, words: NoticeWords) -> Self {
        Self { outbox, clock, receivers: Arc::new(receivers), words, instance: "redrive".to_owned(), public_url: None }
    }

    /// Says what this installation is called, and where people reach it.
    #[must_use]
    pub fn of_instance(self, instance: Option<&str>, public_url: Option<&str>) -> Self {
        let public_url = public_url.map(|url| url.trim_end_matches('/').to_owned());
        Self { instance: instance.unwrap_or(&self.instance).to_owned(), public_url, ..self }
    }

    pub fn receivers(&self) -> &[Receiver] {
        &self.receivers
    }

    /// Delivers all that is due. A receiver that fails holds up no other.
    pub async fn pass(&self) -> Result<Sent> {
        let mut all = Sent::default();
        if self.receivers.is_empty() {
            return Ok(all);
        }
        self.address().await?;
        for sent in join_all(self.receivers.iter().map(|receiver| self.deliver_to(receiver))).await {
            let sent = sent?;
            all.delivered += sent.delivered;
            all.failed += sent.failed;
        }
        self.outbox.prune(self.outbox.now().saturating_sub(KEPT)).await?;
        Ok(all)
    }

    async fn address(&self) -> Result<()> {
        let since = self.outbox.now().saturating_sub(NEWS);
        loop {
            let receivers = Arc::clone(&self.receivers);
            let wanted_by = move |notification: &Notification| {
                let wants = receivers.iter().filter(|receiver| receiver.wants(&notification.notice));
                wants.map(|receiver| receiver.name.clone()).collect()
            };
            if self.outbox.address(since, wanted_by).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn deliver_to(&self, receiver: &Receiver) -> Result<Sent> {
        let mut all = Sent::default();
        loop {
            let due = self.outbox.take(&receiver.name, AT_ONCE, LEASE).await?;
            if due.is_empty() {
                return Ok(all);
            }
            let sending = due.iter().map(|delivery| self.deliver(receiver, delivery));
            let delivered = join_all(sending).await.into_iter().collect::<Result<Vec<bool>>>()?;
            let took = count::of(delivered.iter().filter(|delivered| **delivered).count());
            all.delivered += took;
            all.failed += count::of(delivered.len()) - took;
        }
    }

    fn envelope<'a>(&'a self, notification: &'a Notification) -> Envelope<'a> {
        let next = notification.notice.next_in(self.words);
        let link = self.public_url.as_ref().map(|url| format!("{url}{}", notification.notice.path));
        Envelope { notification, instance: &self.instance, next, link }
    }

    /// Sends a test to one receiver at once, past the outbox: a test that fails is not tried again.
    pub async fn try_out(&self, receiver: &Receiver, by: &str) -> std::result::Result<(), String> {
        let now = self.outbox.now();
        let notification = Notification {
            id: self.outbox.new_id(),
            at: now,
            notice: Notice::test(by, now),
            audit_head: String::new(),
            addressed_at: Some(now),
            deliveries: vec![],
        };
        let sent = receiver.send(&self.envelope(&notification), &self.clock).await;
        sent.map_err(|failure| one_line(&failure.message))
    }

    /// Sends once; says whether the receiver took it.
    async fn deliver(&self, receiver: &Receiver, delivery: &Delivery) -> Result<bool> {
        let notice = &delivery.notification.notice;
        let (id, name, attempt) = (delivery.notification.id, receiver.name.as_str(), delivery.attempt);
        match receiver.send(&self.envelope(&delivery.notification), &self.clock).await {
            Ok(()) => {
                tracing::info!(%id, receiver = name, event = %notice.event, attempt, "notification delivered");
                self.outbox.delivered(delivery).await?;
                Ok(true)
            }
            Err(failure) => {
                let why = cut(&one_line(&failure.message), LONGEST_ERROR);
                let again = again(delivery, failure.retry_after, self.outbox.now());
                tracing::warn!(%id, receiver = name, attempt, %why, %again, "notification not delivered");
                self.outbox.failed(delivery, &why, again).await?;
                Ok(false)
            }
        }
    }
}

/// When a delivery that failed is tried again: by the receiver's own word, or later and later up to a quarter of an hour.
fn again(delivery: &Delivery, hint: Option<Duration>, now: Timestamp) -> Timestamp {
    let backoff =
        Backoff::Exponential { base: Duration::from_secs(10), multiplier: 2.0, cap: Duration::from_secs(900) };
    let policy = RetryPolicy { backoff, jitter: Duration::from_secs(5), ..RetryPolicy::process() };
    let (_, seed) = delivery.notification.id.uuid().as_u64_pair();
    now.saturating_add(hint.unwrap_or_else(|| policy.jittered_delay(delivery.attempt, seed)))
}
