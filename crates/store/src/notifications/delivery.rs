//! Deliveries: who has to get a notification, and the sender's lease on each. A sender that died leaves its lease to run out,
//! and another sends again: a receiver gets everything at least once, and tells repetitions by the id.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::{NotificationId, TaskId};
use redrive_core::time::Timestamp;

use super::outbox::{Notification, add, read_row};
use crate::db::{Batch, Column, Effect, Kind, Param, Sql};
use crate::error::Result;
use crate::handles::{Inner, Store, transact};

/// The sender's handle on the outbox. It can neither change work nor look at it.
#[derive(Debug, Clone)]
pub struct Outbox {
    inner: Arc<Inner>,
}

impl Store {
    pub fn outbox(&self) -> Outbox {
        Outbox { inner: Arc::clone(&self.inner) }
    }
}

/// A notification that one sender has the lease to deliver to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub notification: Notification,
    pub receiver: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    task_id: TaskId,
}

/// How many notifications are given to receivers at a time.
const ADDRESSED_AT_ONCE: i64 = 100;

impl Outbox {
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// An identity for a notification that is not kept.
    pub fn new_id(&self) -> NotificationId {
        self.inner.ids.notification(self.inner.now())
    }

    /// Adds a notification that belongs to no other change.
    pub async fn add(&self, notice: redrive_core::notice::Notice) -> Result<NotificationId> {
        let now = self.inner.now();
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "add notification", |tx, notice, inner| add(tx, &inner.ids, &notice, now).await)
    }

    /// Gives new notifications to those whom `receivers` names for each. What was made before `since` goes to nobody: it is
    /// no news to a receiver that was configured later. Gives how many were looked at.
    pub async fn address<F>(&self, since: Timestamp, receivers: F) -> Result<usize>
    where
        F: Fn(&Notification) -> Vec<String> + Send + Sync + 'static,
    {
        let now = self.inner.now();
        transact!(self.inner, "address notifications", |tx, receivers| {
            let new = tx.rows(&NEW, &[ADDRESSED_AT_ONCE.into()], |row| read_row(row.cursor())).await?;
            let mut deliveries = Vec::new();
            for notification in &new {
                let to = if notification.at < since { vec![] } else { receivers(notification) };
                deliveries.extend(to.into_iter().map(|receiver| (notification, receiver)));
            }
            // On PostgreSQL the rows are locked; elsewhere there is one writer.
            tx.batch(
                &ADDRESSED,
                &[Column::ids(&new, |one| Some(one.id.uuid())), Column::ints(&new, |_| Some(now.micros()))],
            )
            .await?;
            tx.batch(
                &DELIVER,
                &[
                    Column::ids(&deliveries, |(one, _)| Some(one.id.uuid())),
                    Column::texts(&deliveries, |(_, receiver)| Some(receiver.as_str())),
                    Column::texts(&deliveries, |(one, _)| Some(one.notice.subject.as_str())),
                    Column::ints(&deliveries, |_| Some(now.micros())),
                    Column::ints(&deliveries, |_| Some(0)),
                ],
            )
            .await?;
            Ok(new.len())
        })
    }

    /// Takes what is due to a receiver, at most so many, each under a lease. Of one subject only the oldest is taken, so
    /// that nobody hears of an end before its beginning.
    pub async fn take(&self, receiver: &str, limit: u32, lease: Duration) -> Result<Vec<Delivery>> {
        let receiver = receiver.to_owned();
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "take deliveries", |tx, receiver, inner| {
            let now = tx.now();
            let task_id = inner.ids.task(now);
            let params: [Param<'_>; 3] = [receiver.as_str().into(), now.micros().into(), i64::from(limit).into()];
            let found = tx
                .rows(&DUE, &params, |row| {
                    let attempts: u32 = row.cursor_at(5).count()?;
                    Ok((read_row(row.cursor())?, attempts))
                })
                .await?;
            tx.batch(
                &LEASE,
                &[
                    Column::ids(&found, |(one, _)| Some(one.id.uuid())),
                    Column::texts(&found, |_| Some(receiver.as_str())),
                    Column::ints(&found, |_| Some(now.saturating_add(lease).micros())),
                    Column::ids(&found, |_| Some(task_id.uuid())),
                ],
            )
            .await?;
            let delivery = |(notification, attempts): (Notification, u32)| Delivery {
                notification,
                receiver: String::clone(&receiver),
                attempt: attempts.saturating_add(1),
                task_id,
            };
            Ok(found.into_iter().map(delivery).collect())
        })
    }

    /// Notes that a receiver has it. Says whether the lease was still this sender's.
    pub async fn delivered(&self, delivery: &Delivery) -> Result<bool> {
        let now = self.inner.now();
        self.end(&DELIVERED, delivery, now, None).await
    }

    /// Notes why a receiver has it not, and when it is tried again.
    pub async fn failed(&self, delivery: &Delivery, why: &str, again: Timestamp) -> Result<bool> {
        self.end(&FAILED, delivery, again, Some(why.to_owned())).await
    }

    async fn end(&self, sql: &'static Sql, delivery: &Delivery, at: Timestamp, why: Option<String>) -> Result<bool> {
        let delivery = delivery.clone();
        transact!(self.inner, "end delivery", |tx, delivery, why| {
            let params: [Param<'_>; 5] = [
                delivery.notification.id.uuid().into(),
                delivery.receiver.as_str().into(),
                delivery.task_id.uuid().into(),
                at.micros().into(),
                Option::as_ref(&why).into(),
            ];
            Ok(tx.execute(sql, &params).await? > 0)
        })
    }

    /// Forgets what was made before a moment and has reached its receivers; gives how many.
    pub async fn prune(&self, before: Timestamp) -> Result<u64> {
        transact!(self.inner, "prune notifications", |tx| {
            let old = tx.rows(&OLD, &[before.micros().into()], |row| row.id(0)).await?;
            let ids = [Column::ids(&old, |id| Some(*id))];
            tx.batch(&FORGET_DELIVERIES, &ids).await?;
            tx.batch(&FORGET, &ids).await?;
            Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
        })
    }
}

static NEW: Sql = Sql::new(
    "/* deliveries::new */
     SELECT notification_id, at, notice, audit_head, addressed_at
     FROM notifications
     WHERE addressed_at IS NULL
     ORDER BY notification_id
     LIMIT CAST(?1 AS BIGINT)
     {skip_locked}",
);
static ADDRESSED: Batch = Batch::new(
    "/* deliveries::addressed */
     UPDATE notifications
     SET addressed_at = @addressed_at
     {from}
     WHERE notifications.notification_id = @notification_id",
    &[("notification_id", Kind::Id), ("addressed_at", Kind::Int)],
    Effect::Row,
);
static DELIVER: Batch = Batch::new(
    "/* deliveries::deliver */
     INSERT INTO deliveries (notification_id, receiver, subject, due_at, attempts)
     {values @notification_id, @receiver, @subject, @due_at, @attempts}
     ON CONFLICT DO NOTHING",
    &[
        ("notification_id", Kind::Id),
        ("receiver", Kind::Text),
        ("subject", Kind::Text),
        ("due_at", Kind::Int),
        ("attempts", Kind::Int),
    ],
    Effect::Inserted(&["notification_id", "receiver"]),
);
static DUE: Sql = Sql::new(
    "/* deliveries::due */
     SELECT n.notification_id, n.at, n.notice, n.audit_head, n.addressed_at, d.attempts
     FROM deliveries d
     JOIN notifications n ON n.notification_id = d.notification_id
     WHERE d.receiver = ?1 AND d.delivered_at IS NULL AND d.due_at <= CAST(?2 AS BIGINT)
       AND NOT EXISTS (
           SELECT 1
           FROM deliveries earlier
           WHERE earlier.receiver = d.receiver AND earlier.subject = d.subject AND earlier.delivered_at IS NULL
             AND earlier.notification_id < d.notification_id)
     ORDER BY d.notification_id
     LIMIT CAST(?3 AS BIGINT)
     {skip_locked}",
);
static LEASE: Batch = Batch::new(
    "/* deliveries::lease */
     UPDATE deliveries
     SET due_at = @due_at, attempts = deliveries.attempts + 1, task_id = @task_id
     {from}
     WHERE deliveries.notification_id = @notification_id AND deliveries.receiver = @receiver",
    &[("notification_id", Kind::Id), ("receiver", Kind::Text), ("due_at", Kind::Int), ("task_id", Kind::Id)],
    Effect::Row,
);
static DELIVERED: Sql = Sql::new(
    "/* deliveries::delivered */
     UPDATE deliveries
     SET delivered_at = ?4, error = ?5
     WHERE notification_id = ?1 AND receiver = ?2 AND task_id = ?3 AND delivered_at IS NULL",
);
static FAILED: Sql = Sql::new(
    "/* deliveries::failed */
     UPDATE deliveries
     SET due_at = ?4, error = ?5
     WHERE notification_id = ?1 AND receiver = ?2 AND task_id = ?3 AND delivered_at IS NULL",
);
static OLD: Sql = Sql::new(
    "/* deliveries::old */
     SELECT n.notification_id
     FROM notifications n
     WHERE n.at < CAST(?1 AS BIGINT)
       AND NOT EXISTS (
           SELECT 1
           FROM deliveries d
           WHERE d.notification_id = n.notification_id AND d.delivered_at IS NULL)
     ORDER BY n.notification_id
     LIMIT 1000",
);
static FORGET_DELIVERIES: Batch = Batch::new(
    "/* deliveries::forget */
     DELETE FROM deliveries
     {using}
     WHERE deliveries.notification_id = @notification_id",
    &[("notification_id", Kind::Id)],
    Effect::All,
);
static FORGET: Batch = Batch::new(
    "/* notifications::forget */
     DELETE FROM notifications
     {using}
     WHERE notifications.notification_id = @notification_id",
    &[("notification_id", Kind::Id)],
    Effect::All,
);
