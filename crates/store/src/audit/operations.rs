//! Operations: who asked for what, when and why. A row is written in the transaction of the first change it made.

use std::sync::{Arc, LazyLock};

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;

use super::chain::Chain;
use crate::db::columns::{Field, Named, columns, named, select_list};
use crate::db::{Batch, Effect, Row, Sql, Tx};
use crate::error::Result;
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

    /// The ids of operations, those that are done in steps among them, newest first, before `before`.
    pub async fn operation_ids_before(&self, before: Option<OpId>, limit: u32) -> Result<Vec<OpId>> {
        let before = before.map_or(uuid::Uuid::max(), OpId::uuid);
        read!(self.read_by_index, "operation ids", |tx, before, limit| before_id(tx, *before, *limit))
    }

    /// How many changes an operation made.
    pub async fn count_changes(&self, id: OpId) -> Result<u64> {
        read!(self.read_by_index, "count changes", |tx, id| count_changes(tx, *id))
    }

    /// The ids from `first` to `last`, the lowest first, and no more than `most` of them.
    pub async fn operation_ids_between(&self, first: OpId, last: OpId, most: u32) -> Result<Vec<OpId>> {
        read!(self.read_by_index, "operation ids", |tx, first, last, most| between(tx, *first, *last, *most))
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

/// `{operation}`: what [`StoredOperation::read`] expects.
pub(super) static COLUMNS: LazyLock<String> = LazyLock::new(|| select_list("operations", &OPERATION));

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
/// Adds an operation that changes no partition and no run; what it does is in its filters and flags.
pub(crate) async fn record_alone(tx: &mut Tx<'_>, operation: &Operation) -> Result<()> {
    begin(tx, operation).await?.0.store(tx).await
}

/// Takes up the chain for an operation; gives the number of its row, which is added where there is none yet.
pub(super) async fn begin(tx: &mut Tx<'_>, operation: &Operation) -> Result<(Chain, i64)> {
    let mut chain = Chain::locked(tx).await?;
    if let Some(seq) = tx.row(&KNOWN, &[operation.op_id.uuid().into()], |row| row.int(0)).await? {
        return Ok((chain, seq));
    }
    chain.operation(operation);
    let row = StoredOperation { seq: chain.seq, operation: operation.clone(), hash: chain.hash.to_vec() };
    tx.batch(&INSERT_OPERATION, &columns(&OPERATION, &[&row])).await?;
    let seq = chain.seq;
    Ok((chain, seq))
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
         (SELECT count(*) FROM operation_changes c WHERE c.operation_seq = operations.seq)
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

static BETWEEN: Sql = Sql::new(
    "/* audit::between */
     SELECT op_id
     FROM operations
     WHERE op_id >= ?1
       AND op_id <= ?2
     ORDER BY op_id
     LIMIT CAST(?3 AS BIGINT)",
);

async fn between(tx: &mut Tx<'_>, first: OpId, last: OpId, most: u32) -> Result<Vec<OpId>> {
    let params = [first.uuid().into(), last.uuid().into(), i64::from(most).into()];
    tx.rows(&BETWEEN, &params, |row| row.id(0).map(OpId::from_uuid)).await
}

static BEFORE: Sql = Sql::new(
    "/* audit::before */
     SELECT op_id
     FROM (
         SELECT op_id FROM (SELECT op_id FROM operations WHERE op_id < ?1 ORDER BY op_id DESC LIMIT CAST(?2 AS BIGINT)) AS audited
         UNION
         SELECT op_id FROM (SELECT op_id FROM bulk_operations WHERE op_id < ?1 ORDER BY op_id DESC LIMIT CAST(?2 AS BIGINT)) AS bulk
     ) AS known
     ORDER BY op_id DESC
     LIMIT CAST(?2 AS BIGINT)",
);

async fn before_id(tx: &mut Tx<'_>, before: uuid::Uuid, limit: u32) -> Result<Vec<OpId>> {
    tx.rows(&BEFORE, &[before.into(), i64::from(limit).into()], |row| row.id(0).map(OpId::from_uuid)).await
}

static COUNT_CHANGES: Sql = Sql::new(
    "/* audit::count_changes */
     SELECT count(*)
     FROM operation_changes
     WHERE operation_seq = (
         SELECT seq
         FROM operations
         WHERE op_id = ?1)",
);

async fn count_changes(tx: &mut Tx<'_>, id: OpId) -> Result<u64> {
    let count = tx.row(&COUNT_CHANGES, &[id.uuid().into()], |row| row.int(0)).await?;
    Ok(u64::try_from(count.unwrap_or(0)).unwrap_or(0))
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

pub(super) static OPERATIONS_FROM: Sql = Sql::new(
    "/* audit::operations_from */
     SELECT {operation}
     FROM operations
     WHERE seq > CAST(?1 AS BIGINT) AND seq <= CAST(?2 AS BIGINT)
     ORDER BY seq",
);
