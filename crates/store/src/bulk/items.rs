//! What a plan or an operation is about, one row each, and what became of it.

use std::sync::Arc;

use uuid::Uuid;

use crate::db::{Batch, Column, Effect, Kind, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, View, read, transact};

/// What became of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemOutcome {
    Changed,
    Skipped,
    Failed,
}

impl ItemOutcome {
    pub const ALL: [Self; 3] = [Self::Changed, Self::Skipped, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// The outcome that a word means.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// An item of a plan or an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkItem {
    pub seq: i64,
    /// As the plan saw it.
    pub version: Option<u64>,
    /// A partition's key or a run's id, as JSON.
    pub subject: String,
    pub outcome: Option<ItemOutcome>,
    pub reason: Option<String>,
    pub was: Option<String>,
    pub becomes: Option<String>,
}

/// An item that an operation has dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledItem {
    pub seq: i64,
    pub subject: String,
    pub outcome: ItemOutcome,
    pub reason: Option<String>,
    pub was: Option<String>,
    pub becomes: Option<String>,
}

impl ControlStore {
    /// Adds items to a plan that is being made.
    pub async fn add_items(&self, list: Uuid, items: Vec<BulkItem>) -> Result<()> {
        transact!(self.inner, "add items", |tx, items| add(tx, list, &items).await)
    }
}

impl View {
    /// The items of a plan or an operation after `after`, in their order; of one outcome where one is named.
    pub async fn bulk_items(
        &self,
        list: Uuid,
        after: i64,
        outcome: Option<ItemOutcome>,
        limit: u32,
    ) -> Result<Vec<BulkItem>> {
        read!(self.read_by_index, "items", |tx, list, after, outcome, limit| page(tx, *list, *after, *outcome, *limit))
    }
}

static ADD: Batch = Batch::new(
    "/* items::add */
     INSERT INTO bulk_items (list_id, seq, version, subject)
     {values @list_id, @seq, @version, @subject}",
    &[("list_id", Kind::Id), ("seq", Kind::Int), ("version", Kind::Int), ("subject", Kind::Text)],
    Effect::All,
);

async fn add(tx: &mut Tx<'_>, list: Uuid, items: &[BulkItem]) -> Result<()> {
    let columns = [
        Column::ids(items, |_| Some(list)),
        Column::ints(items, |item| Some(item.seq)),
        Column::ints(items, |item| item.version.and_then(|version| i64::try_from(version).ok())),
        Column::texts(items, |item| Some(item.subject.as_str())),
    ];
    tx.batch(&ADD, &columns).await.map(drop)
}

static PAGE: Sql = Sql::new(
    "/* items::page */
     SELECT seq, version, subject, outcome, reason, was, becomes
     FROM bulk_items
     WHERE list_id = ?1
       AND seq > CAST(?2 AS BIGINT)
     ORDER BY seq
     LIMIT CAST(?3 AS BIGINT)",
);
static PAGE_OF_OUTCOME: Sql = Sql::new(
    "/* items::page_of_outcome */
     SELECT seq, version, subject, outcome, reason, was, becomes
     FROM bulk_items
     WHERE list_id = ?1
       AND seq > CAST(?2 AS BIGINT)
       AND outcome = ?4
     ORDER BY seq
     LIMIT CAST(?3 AS BIGINT)",
);

async fn page(
    tx: &mut Tx<'_>,
    list: Uuid,
    after: i64,
    outcome: Option<ItemOutcome>,
    limit: u32,
) -> Result<Vec<BulkItem>> {
    match outcome {
        None => tx.rows(&PAGE, &[list.into(), after.into(), i64::from(limit).into()], read_row).await,
        Some(outcome) => {
            let params = [list.into(), after.into(), i64::from(limit).into(), outcome.as_str().into()];
            tx.rows(&PAGE_OF_OUTCOME, &params, read_row).await
        }
    }
}

fn read_row(row: &Row<'_>) -> Result<BulkItem> {
    let mut row = row.cursor();
    Ok(BulkItem {
        seq: row.int()?,
        version: row.opt_int()?.and_then(|version| u64::try_from(version).ok()),
        subject: row.text()?,
        outcome: match row.opt_text()? {
            Some(word) => Some(ItemOutcome::of(&word).ok_or_else(|| Error::row("bulk_items", word))?),
            None => None,
        },
        reason: row.opt_text()?,
        was: row.opt_text()?,
        becomes: row.opt_text()?,
    })
}

static SETTLE: Batch = Batch::new(
    "/* items::settle */
     INSERT INTO bulk_items (list_id, seq, subject, outcome, reason, was, becomes)
     {values @list_id, @seq, @subject, @outcome, @reason, @was, @becomes}
     ON CONFLICT (list_id, seq) DO UPDATE
     SET outcome = excluded.outcome, reason = excluded.reason, was = excluded.was, becomes = excluded.becomes",
    &[
        ("list_id", Kind::Id),
        ("seq", Kind::Int),
        ("subject", Kind::Text),
        ("outcome", Kind::Text),
        ("reason", Kind::Text),
        ("was", Kind::Text),
        ("becomes", Kind::Text),
    ],
    Effect::All,
);

/// Says of items what became of them.
pub(super) async fn settle(tx: &mut Tx<'_>, list: Uuid, items: &[SettledItem]) -> Result<()> {
    let columns = [
        Column::ids(items, |_| Some(list)),
        Column::ints(items, |item| Some(item.seq)),
        Column::texts(items, |item| Some(item.subject.as_str())),
        Column::texts(items, |item| Some(item.outcome.as_str())),
        Column::texts(items, |item| item.reason.as_deref()),
        Column::texts(items, |item| item.was.as_deref()),
        Column::texts(items, |item| item.becomes.as_deref()),
    ];
    tx.batch(&SETTLE, &columns).await.map(drop)
}

static FORGET: Sql = Sql::new(
    "/* items::forget */
     DELETE FROM bulk_items
     WHERE list_id = ?1
       AND seq <= (
           SELECT max(seq)
           FROM (SELECT seq FROM bulk_items WHERE list_id = ?1 ORDER BY seq LIMIT CAST(?2 AS BIGINT)) AS first
       )",
);

/// Takes some items of a list away; gives how many.
pub(super) async fn forget(tx: &mut Tx<'_>, list: Uuid, most: u32) -> Result<u64> {
    tx.execute(&FORGET, &[list.into(), i64::from(most).into()]).await
}
