//! Notifications as they are kept. A row is written in the transaction of what it tells of, so that neither is there without
//! the other.

use std::sync::Arc;

use redrive_core::id::NotificationId;
use redrive_core::notice::Notice;
use redrive_core::time::Timestamp;

use crate::audit;
use crate::db::{Column, Cursor, Kind, Lookup, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::ids::Ids;

/// A notification with what became of it at each of its receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    pub id: NotificationId,
    pub at: Timestamp,
    pub notice: Notice,
    /// The head of the audit trail at that moment, as `SEQ:HASH`.
    pub audit_head: String,
    /// When it was given to its receivers; none while no sender has looked at it.
    pub addressed_at: Option<Timestamp>,
    pub deliveries: Vec<DeliveryState>,
}

/// What became of a notification at one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryState {
    pub receiver: String,
    pub attempts: u32,
    pub delivered_at: Option<Timestamp>,
    /// When it is tried next, if it was not delivered.
    pub due_at: Timestamp,
    pub error: Option<String>,
}

/// What receivers have not got yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxDepth {
    /// Counted to a bound of 10,001.
    pub open: u64,
    /// When the oldest of them was made.
    pub oldest: Option<Timestamp>,
}

static INSERT: Sql = Sql::new(
    "/* notifications::add */
     INSERT INTO notifications (notification_id, at, notice, audit_head)
     VALUES (?1, ?2, ?3, ?4)",
);

/// Adds a notification to the outbox.
pub(crate) async fn add(tx: &mut Tx<'_>, ids: &Ids, notice: &Notice, now: Timestamp) -> Result<NotificationId> {
    let id = ids.notification(now);
    let text = serde_json::to_string(notice).map_err(|error| Error::row("notifications", error))?;
    let head = audit::head(tx).await?.to_string();
    tx.execute(&INSERT, &[id.uuid().into(), now.micros().into(), text.as_str().into(), head.as_str().into()]).await?;
    Ok(id)
}

impl View {
    /// Notifications, newest first.
    pub async fn notifications(&self, limit: u32) -> Result<Vec<Notification>> {
        read!(self.read_by_index, "notifications", |tx, limit| newest(tx, *limit))
    }

    /// How much of the outbox has not reached its receivers.
    pub async fn outbox_depth(&self) -> Result<OutboxDepth> {
        read!(self.read_by_index, "outbox depth", |tx| depth(tx))
    }
}

static NEWEST: Sql = Sql::new(
    "/* notifications::newest */
     SELECT notification_id, at, notice, audit_head, addressed_at
     FROM notifications
     ORDER BY notification_id DESC
     LIMIT CAST(?1 AS BIGINT)",
);
static STATES: Lookup = Lookup::new(
    "/* notifications::states */
     SELECT receiver, attempts, delivered_at, due_at, error
     FROM deliveries
     WHERE notification_id = @notification_id",
    &[("notification_id", Kind::Id)],
);

pub(super) fn read_row(mut row: Cursor<'_>) -> Result<Notification> {
    Ok(Notification {
        id: NotificationId::from_uuid(row.id()?),
        at: row.time()?,
        notice: serde_json::from_str(row.str()?).map_err(|error| Error::row("notifications", error))?,
        audit_head: row.text()?,
        addressed_at: row.opt_time()?,
        deliveries: vec![],
    })
}

async fn newest(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<Notification>> {
    let mut found = tx.rows(&NEWEST, &[i64::from(limit).into()], |row| read_row(row.cursor())).await?;
    let ids = [Column::ids(&found, |one| Some(one.id.uuid()))];
    let states = tx
        .lookup(&STATES, &ids, |mut row| {
            Ok(DeliveryState {
                receiver: row.text()?,
                attempts: row.count()?,
                delivered_at: row.opt_time()?,
                due_at: row.time()?,
                error: row.opt_text()?,
            })
        })
        .await?;
    for (nth, state) in states {
        found[nth].deliveries.push(state);
    }
    for one in &mut found {
        one.deliveries.sort_by(|a, b| a.receiver.cmp(&b.receiver));
    }
    Ok(found)
}

static DEPTH: Sql = Sql::new(
    "/* notifications::depth */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM deliveries
         WHERE delivered_at IS NULL
         LIMIT 10001) counted",
);
static OLDEST: Sql = Sql::new(
    "/* notifications::oldest */
     SELECT min(n.at)
     FROM (
         SELECT notification_id
         FROM deliveries
         WHERE delivered_at IS NULL
         LIMIT 10001) open
     JOIN notifications n ON n.notification_id = open.notification_id",
);

async fn depth(tx: &mut Tx<'_>) -> Result<OutboxDepth> {
    let open = tx.row(&DEPTH, &[], |row| row.int(0)).await?.unwrap_or(0);
    let oldest = tx.row(&OLDEST, &[], |row| row.opt_int(0)).await?.flatten();
    Ok(OutboxDepth { open: u64::try_from(open).unwrap_or(0), oldest: oldest.map(Timestamp::from_micros) })
}
