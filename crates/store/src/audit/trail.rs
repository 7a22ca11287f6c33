//! Operations and what they changed. A row is written in the transaction of the change it tells of.

use std::sync::{Arc, LazyLock};

use redrive_core::id::OpId;
use redrive_core::key::{LogicalDate, PartitionKey};
use redrive_core::partition::ControlSnapshot;
use redrive_core::time::Timestamp;
use serde::Serialize;

use super::chain::Chain;
use crate::db::columns::{Field, Named, columns, named, select_list};
use crate::db::{Batch, Effect, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};

impl View {
    /// Operations, newest first, before sequence number `before`.
    pub async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<PastOperation>> {
        let before = before.unwrap_or(i64::MAX);
        read!(self, "operations", |tx, before, limit| operations(tx, *before, *limit))
    }

    pub async fn operation(&self, id: OpId) -> Result<Option<Operation>> {
        read!(self, "operation", |tx, id| operation(tx, *id))
    }

    /// An operation's changes in their order, after sequence number `after`.
    pub async fn changes(&self, id: OpId, after: i64, limit: u32) -> Result<Vec<(i64, AuditedChange)>> {
        read!(self, "changes", |tx, id, after, limit| changes(tx, *id, *after, *limit))
    }
}

/// An operation as it is asked for; its row is written with its first change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub op_id: OpId,
    pub at: Timestamp,
    pub actor: String,
    pub command: String,
    /// JSON.
    pub filters: String,
    /// JSON.
    pub flags: String,
    pub reason: Option<String>,
}

/// What an operation did to one partition. Nothing was there before it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedChange {
    pub key: PartitionKey,
    pub before: Option<ControlSnapshot>,
    pub after: ControlSnapshot,
}

/// A change written out as its row will hold it; made before the transaction, which is for writing.
#[derive(Debug)]
pub(crate) struct WrittenChange {
    before: Option<String>,
    after: String,
}

impl WrittenChange {
    pub(crate) fn new(before: Option<&ControlSnapshot>, after: &ControlSnapshot) -> Result<Self> {
        Ok(Self { before: before.map(json).transpose()?, after: json(after)? })
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::row("operation_changes", error))
}

fn snapshot(text: &str) -> Result<ControlSnapshot> {
    serde_json::from_str(text).map_err(|error| Error::row("operation_changes", error))
}

/// An operation with its place in the chain.
pub(super) struct StoredOperation {
    pub(super) seq: i64,
    pub(super) operation: Operation,
    pub(super) hash: Vec<u8>,
}

const OPERATION: [Field<StoredOperation>; 9] = [
    Field::int("seq", |row| row.seq.into()),
    Field::id("op_id", |row| row.operation.op_id.uuid().into()),
    Field::int("at", |row| row.operation.at.micros().into()),
    Field::text("actor", |row| (&row.operation.actor).into()),
    Field::text("command", |row| (&row.operation.command).into()),
    Field::text("filters", |row| (&row.operation.filters).into()),
    Field::text("flags", |row| (&row.operation.flags).into()),
    Field::text("reason", |row| row.operation.reason.as_ref().into()),
    Field::bytes("hash", |row| row.hash.as_slice().into()),
];
const OPERATION_NAMES: [Named; 9] = named(&OPERATION);

impl StoredOperation {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        Ok(Self {
            seq: row.int()?,
            operation: Operation {
                op_id: OpId::from_uuid(row.id()?),
                at: row.time()?,
                actor: row.text()?,
                command: row.text()?,
                filters: row.text()?,
                flags: row.text()?,
                reason: row.opt_text()?,
            },
            hash: row.bytes()?,
        })
    }
}

/// A change as its row has it.
pub(super) struct StoredChange {
    pub(super) seq: i64,
    pub(super) op_id: OpId,
    pub(super) key: [String; 4],
    pub(super) before: Option<String>,
    pub(super) after: String,
    pub(super) hash: Vec<u8>,
}

impl StoredChange {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        Ok(Self {
            seq: row.int()?,
            op_id: OpId::from_uuid(row.id()?),
            key: [row.text()?, row.text()?, row.text()?, row.text()?],
            before: row.opt_text()?,
            after: row.text()?,
            hash: row.bytes()?,
        })
    }

    fn parse(self) -> Result<AuditedChange> {
        let [source, customer_id, query_name, date] = &self.key;
        let key = PartitionKey::new(source, customer_id, query_name, date);
        Ok(AuditedChange {
            key: key.map_err(|error| Error::row("operation_changes", error))?,
            before: self.before.as_deref().map(snapshot).transpose()?,
            after: snapshot(&self.after)?,
        })
    }
}

/// A change that is to be written.
struct NewChange<'a> {
    seq: i64,
    op_id: OpId,
    key: &'a PartitionKey,
    date: &'a str,
    change: &'a WrittenChange,
    hash: [u8; 32],
}

/// The columns of a change, in the order in which [`StoredChange::read`] expects them.
const fn change_fields<'r>() -> [Field<NewChange<'r>>; 9] {
    [
        Field::int("seq", |row| row.seq.into()),
        Field::id("op_id", |row| row.op_id.uuid().into()),
        Field::text("source", |row| row.key.source.as_str().into()),
        Field::text("customer_id", |row| row.key.customer_id.as_str().into()),
        Field::text("query_name", |row| row.key.query_name.as_str().into()),
        Field::text("logical_date", |row| row.date.into()),
        Field::text("before", |row| row.change.before.as_ref().into()),
        Field::text("after", |row| (&row.change.after).into()),
        Field::bytes("hash", |row| row.hash.as_slice().into()),
    ]
}
const CHANGE_NAMES: [Named; 9] = named(&change_fields());

static OPERATION_COLUMNS: LazyLock<String> = LazyLock::new(|| select_list("operations", &OPERATION));
static CHANGE_COLUMNS: LazyLock<String> = LazyLock::new(|| select_list("operation_changes", &change_fields()));

/// What a fragment of a statement about the trail stands for.
pub(crate) fn fragment(name: &str) -> Option<&'static str> {
    match name {
        "operation" => Some(&OPERATION_COLUMNS),
        "change" => Some(&CHANGE_COLUMNS),
        _ => None,
    }
}

static KNOWN: Sql = Sql::new(
    "/* audit::known */
     SELECT seq
     FROM operations
     WHERE op_id = ?1",
);
static INSERT_OPERATION: Batch = Batch::new(
    "/* audit::insert_operation */
     INSERT INTO operations ({columns})
     {values}",
    &OPERATION_NAMES,
    Effect::All,
);
static INSERT_CHANGES: Batch = Batch::new(
    "/* audit::insert_changes */
     INSERT INTO operation_changes ({columns})
     {values}",
    &CHANGE_NAMES,
    Effect::All,
);

/// Adds an operation's changes to the chain, and the operation itself before its first.
pub(crate) async fn record(
    tx: &mut Tx<'_>,
    operation: &Operation,
    changes: &[(&PartitionKey, &WrittenChange)],
) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut chain = begin(tx, operation).await?;
    let dates = dates(changes.iter().map(|(key, _)| *key));
    let mut rows = Vec::with_capacity(changes.len());
    for (&(key, change), date) in changes.iter().zip(&dates) {
        let parts = [key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str(), date.as_str()];
        chain.change(operation.op_id, parts, change.before.as_deref(), &change.after);
        rows.push(NewChange { seq: chain.seq, op_id: operation.op_id, key, date, change, hash: chain.hash });
    }
    tx.batch(&INSERT_CHANGES, &columns(&change_fields(), &rows.iter().collect::<Vec<_>>())).await?;
    chain.store(tx).await
}

/// Adds an operation that changes no partition; what it does is in its filters and flags.
pub(crate) async fn record_alone(tx: &mut Tx<'_>, operation: &Operation) -> Result<()> {
    begin(tx, operation).await?.store(tx).await
}

async fn begin(tx: &mut Tx<'_>, operation: &Operation) -> Result<Chain> {
    let mut chain = Chain::locked(tx).await?;
    if tx.row(&KNOWN, &[operation.op_id.uuid().into()], |row| row.int(0)).await?.is_none() {
        chain.operation(operation);
        let row = StoredOperation { seq: chain.seq, operation: operation.clone(), hash: chain.hash.to_vec() };
        tx.batch(&INSERT_OPERATION, &columns(&OPERATION, &[&row])).await?;
    }
    Ok(chain)
}

/// Logical dates as the trail keeps them; each is written out once for the keys that follow one another with it.
fn dates<'k>(keys: impl Iterator<Item = &'k PartitionKey>) -> Vec<String> {
    let mut last: Option<(LogicalDate, String)> = None;
    keys.map(|key| match &last {
        Some((date, text)) if *date == key.logical_date => text.clone(),
        _ => {
            let text = key.logical_date.to_string();
            last = Some((key.logical_date, text.clone()));
            text
        }
    })
    .collect()
}

/// An operation in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastOperation {
    pub seq: i64,
    pub operation: Operation,
    pub changes: u64,
}

static OPERATIONS: Sql = Sql::new(
    "/* audit::operations */
     SELECT {operation},
         (SELECT count(*) FROM operation_changes c WHERE c.op_id = operations.op_id)
     FROM operations
     WHERE seq < CAST(?1 AS BIGINT)
     ORDER BY seq DESC
     LIMIT CAST(?2 AS BIGINT)",
);

/// Operations, newest first, before the one with sequence number `before`.
async fn operations(tx: &mut Tx<'_>, before: i64, limit: u32) -> Result<Vec<PastOperation>> {
    tx.rows(&OPERATIONS, &[before.into(), i64::from(limit).into()], |row| {
        let StoredOperation { seq, operation, .. } = StoredOperation::read(row)?;
        Ok(PastOperation { seq, operation, changes: row.cursor_at(OPERATION.len()).count()? })
    })
    .await
}

static OPERATION_BY_ID: Sql = Sql::new(
    "/* audit::operation */
     SELECT {operation}
     FROM operations
     WHERE op_id = ?1",
);

async fn operation(tx: &mut Tx<'_>, op_id: OpId) -> Result<Option<Operation>> {
    Ok(tx.row(&OPERATION_BY_ID, &[op_id.uuid().into()], StoredOperation::read).await?.map(|row| row.operation))
}

static CHANGES: Sql = Sql::new(
    "/* audit::changes */
     SELECT {change}
     FROM operation_changes
     WHERE op_id = ?1 AND seq > CAST(?2 AS BIGINT)
     ORDER BY seq
     LIMIT CAST(?3 AS BIGINT)",
);

/// An operation's changes in the order they were made, after sequence number `after`.
async fn changes(tx: &mut Tx<'_>, op_id: OpId, after: i64, limit: u32) -> Result<Vec<(i64, AuditedChange)>> {
    tx.rows(&CHANGES, &[op_id.uuid().into(), after.into(), i64::from(limit).into()], |row| {
        let change = StoredChange::read(row)?;
        Ok((change.seq, change.parse()?))
    })
    .await
}

pub(super) static OPERATIONS_FROM: Sql = Sql::new(
    "/* audit::operations_from */
     SELECT {operation}
     FROM operations
     WHERE seq > CAST(?1 AS BIGINT) AND seq <= CAST(?2 AS BIGINT)
     ORDER BY seq",
);
pub(super) static CHANGES_FROM: Sql = Sql::new(
    "/* audit::changes_from */
     SELECT {change}
     FROM operation_changes
     WHERE seq > CAST(?1 AS BIGINT) AND seq <= CAST(?2 AS BIGINT)
     ORDER BY seq",
);
