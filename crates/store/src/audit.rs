//! The audit trail: who did what, when, to which partitions, with before and after; one hash chain over all of it.
//!
//! Every row carries the hash of the one before it, and is written in the transaction of the change it tells of. The
//! chain's head is a row of its own, so that writers take turns and a cut-off tail shows.

use redrive_core::id::OpId;
use redrive_core::key::{LogicalDate, PartitionKey};
use redrive_core::partition::ControlSnapshot;
use redrive_core::time::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::db::{Batch, Column, Effect, Kind, Row, Sql, Tx};
use crate::error::{Error, Result};

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

/// Where the chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub seq: i64,
    pub hash: Vec<u8>,
}

impl Head {
    pub fn hex(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The chain as it is written and as it is checked: the same bytes in the same order.
struct Chain {
    seq: i64,
    hash: [u8; 32],
}

impl Chain {
    fn from(head: &Head) -> Result<Self> {
        let hash = head.hash.as_slice().try_into().map_err(|_| Error::row("audit_head", "the hash is not 32 bytes"))?;
        Ok(Self { seq: head.seq, hash })
    }

    /// Adds a row; every field goes in with its length, and an absent one with a length that none has, so that no two
    /// rows give the same bytes.
    fn link(&mut self, fields: &[Option<&[u8]>]) {
        let mut digest = Sha256::new();
        digest.update(self.hash);
        self.seq = self.seq.saturating_add(1);
        digest.update(self.seq.to_le_bytes());
        for field in fields {
            let length = field.map_or(u64::MAX, |field| u64::try_from(field.len()).unwrap_or(u64::MAX));
            digest.update(length.to_le_bytes());
            digest.update(field.unwrap_or_default());
        }
        self.hash = digest.finalize().into();
    }

    fn operation(&mut self, operation: &Operation) {
        self.link(&[
            Some(b"operation"),
            Some(operation.op_id.uuid().as_bytes()),
            Some(&operation.at.micros().to_le_bytes()),
            Some(operation.actor.as_bytes()),
            Some(operation.command.as_bytes()),
            Some(operation.filters.as_bytes()),
            Some(operation.flags.as_bytes()),
            operation.reason.as_deref().map(str::as_bytes),
        ]);
    }

    fn change(&mut self, op_id: OpId, key: [&str; 4], before: Option<&str>, after: &str) {
        self.link(&[
            Some(b"change"),
            Some(op_id.uuid().as_bytes()),
            Some(key[0].as_bytes()),
            Some(key[1].as_bytes()),
            Some(key[2].as_bytes()),
            Some(key[3].as_bytes()),
            before.map(str::as_bytes),
            Some(after.as_bytes()),
        ]);
    }
}

static HEAD: Sql = Sql::new("/* audit::head */ SELECT seq, hash FROM audit_head WHERE one = 1 {lock}");
static READ_HEAD: Sql = Sql::new("/* audit::read_head */ SELECT seq, hash FROM audit_head WHERE one = 1");
static MOVE_HEAD: Sql = Sql::new("/* audit::move_head */ UPDATE audit_head SET seq = ?1, hash = ?2 WHERE one = 1");
static KNOWN: Sql = Sql::new("/* audit::known */ SELECT seq FROM operations WHERE op_id = ?1");
static INSERT_OPERATION: Sql = Sql::new(
    "/* audit::insert_operation */ INSERT INTO operations (seq, op_id, at, actor, command, filters, flags, reason, hash) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
);
static INSERT_CHANGES: Batch = Batch::new(
    "/* audit::insert_changes */ INSERT INTO operation_changes (seq, op_id, source, customer_id, query_name, \
     logical_date, before, after, hash) {values @seq, @op_id, @source, @customer_id, @query_name, @logical_date, @before, \
     @after, @hash}",
    &[
        ("seq", Kind::Int),
        ("op_id", Kind::Id),
        ("source", Kind::Text),
        ("customer_id", Kind::Text),
        ("query_name", Kind::Text),
        ("logical_date", Kind::Text),
        ("before", Kind::Text),
        ("after", Kind::Text),
        ("hash", Kind::Bytes),
    ],
    Effect::All,
);

/// Logical dates are kept as text; they are written out once for each batch.
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

fn key(row: &Row<'_>, first: usize) -> Result<PartitionKey> {
    let bad = |error: redrive_core::key::KeyError| Error::row("operation_changes", error);
    Ok(PartitionKey {
        source: row.text(first)?.try_into().map_err(bad)?,
        customer_id: row.text(first + 1)?.try_into().map_err(bad)?,
        query_name: row.text(first + 2)?.try_into().map_err(bad)?,
        logical_date: row.word(first + 3)?,
    })
}

struct ChangeRow<'a> {
    seq: i64,
    key: &'a PartitionKey,
    change: &'a WrittenChange,
    hash: [u8; 32],
}

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
    for ((key, change), date) in changes.iter().zip(&dates) {
        let parts = [key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str(), date.as_str()];
        chain.change(operation.op_id, parts, change.before.as_deref(), &change.after);
        rows.push(ChangeRow { seq: chain.seq, key, change, hash: chain.hash });
    }
    let columns = [
        Column::ints(&rows, |row| Some(row.seq)),
        Column::ids(&rows, |_| Some(operation.op_id.uuid())),
        Column::texts(&rows, |row| Some(row.key.source.as_str())),
        Column::texts(&rows, |row| Some(row.key.customer_id.as_str())),
        Column::texts(&rows, |row| Some(row.key.query_name.as_str())),
        Column::texts(&dates, |date| Some(date.as_str())),
        Column::texts(&rows, |row| row.change.before.as_deref()),
        Column::texts(&rows, |row| Some(row.change.after.as_str())),
        Column::bytes(&rows, |row| Some(row.hash.as_slice())),
    ];
    tx.batch(&INSERT_CHANGES, &columns).await?;
    end(tx, &chain).await
}

/// Adds an operation that changes no partition; what it does is in its filters and flags.
pub(crate) async fn record_alone(tx: &mut Tx<'_>, operation: &Operation) -> Result<()> {
    let chain = begin(tx, operation).await?;
    end(tx, &chain).await
}

async fn begin(tx: &mut Tx<'_>, operation: &Operation) -> Result<Chain> {
    let head = tx.row(&HEAD, &[], read_head).await?.ok_or_else(|| Error::row("audit_head", "there is no head"))?;
    let mut chain = Chain::from(&head)?;
    if tx.row(&KNOWN, &[operation.op_id.uuid().into()], |row| row.int(0)).await?.is_none() {
        chain.operation(operation);
        let params = [
            chain.seq.into(),
            operation.op_id.uuid().into(),
            operation.at.micros().into(),
            (&operation.actor).into(),
            (&operation.command).into(),
            (&operation.filters).into(),
            (&operation.flags).into(),
            operation.reason.as_ref().into(),
            chain.hash.as_slice().into(),
        ];
        tx.execute(&INSERT_OPERATION, &params).await?;
    }
    Ok(chain)
}

async fn end(tx: &mut Tx<'_>, chain: &Chain) -> Result<()> {
    tx.execute(&MOVE_HEAD, &[chain.seq.into(), chain.hash.as_slice().into()]).await.map(drop)
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::row("operation_changes", error))
}

fn read_head(row: &Row<'_>) -> Result<Head> {
    Ok(Head { seq: row.int(0)?, hash: row.bytes(1)? })
}

pub(crate) async fn head(tx: &mut Tx<'_>) -> Result<Head> {
    tx.row(&READ_HEAD, &[], read_head).await?.ok_or_else(|| Error::row("audit_head", "there is no head"))
}

macro_rules! operation_columns {
    () => {
        "seq, op_id, at, actor, command, filters, flags, reason, hash"
    };
}

fn read_operation(row: &Row<'_>) -> Result<(i64, Operation, Vec<u8>)> {
    let operation = Operation {
        op_id: OpId::from_uuid(row.id(1)?),
        at: Timestamp::from_micros(row.int(2)?),
        actor: row.text(3)?,
        command: row.text(4)?,
        filters: row.text(5)?,
        flags: row.text(6)?,
        reason: row.opt_text(7)?,
    };
    Ok((row.int(0)?, operation, row.bytes(8)?))
}

static OPERATIONS: Sql = Sql::new(concat!(
    "/* audit::operations */ SELECT ",
    operation_columns!(),
    ", (SELECT count(*) FROM operation_changes c WHERE c.op_id = operations.op_id) FROM operations \
     WHERE seq < CAST(?1 AS BIGINT) ORDER BY seq DESC LIMIT CAST(?2 AS BIGINT)"
));

/// An operation in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastOperation {
    pub seq: i64,
    pub operation: Operation,
    pub changes: u64,
}

/// Operations, newest first, before the one with sequence number `before`.
pub(crate) async fn operations(tx: &mut Tx<'_>, before: i64, limit: u32) -> Result<Vec<PastOperation>> {
    tx.rows(&OPERATIONS, &[before.into(), i64::from(limit).into()], |row| {
        let (seq, operation, _) = read_operation(row)?;
        Ok(PastOperation { seq, operation, changes: u64::try_from(row.int(9)?).unwrap_or(0) })
    })
    .await
}

static OPERATION: Sql =
    Sql::new(concat!("/* audit::operation */ SELECT ", operation_columns!(), " FROM operations WHERE op_id = ?1"));

pub(crate) async fn operation(tx: &mut Tx<'_>, op_id: OpId) -> Result<Option<Operation>> {
    tx.row(&OPERATION, &[op_id.uuid().into()], |row| Ok(read_operation(row)?.1)).await
}

static CHANGES: Sql = Sql::new(
    "/* audit::changes */ SELECT seq, source, customer_id, query_name, logical_date, before, after \
     FROM operation_changes WHERE op_id = ?1 AND seq > CAST(?2 AS BIGINT) ORDER BY seq LIMIT CAST(?3 AS BIGINT)",
);

/// An operation's changes in the order they were made, after sequence number `after`.
pub(crate) async fn changes(tx: &mut Tx<'_>, op_id: OpId, after: i64, limit: u32) -> Result<Vec<(i64, AuditedChange)>> {
    tx.rows(&CHANGES, &[op_id.uuid().into(), after.into(), i64::from(limit).into()], |row| {
        let read = |text: String| {
            serde_json::from_str::<ControlSnapshot>(&text).map_err(|error| Error::row("operation_changes", error))
        };
        let change = AuditedChange {
            key: key(row, 1)?,
            before: row.opt_text(5)?.map(read).transpose()?,
            after: read(row.text(6)?)?,
        };
        Ok((row.int(0)?, change))
    })
    .await
}

/// What a check of the chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    Whole(Head),
    /// The first row that is missing or not as it was written.
    Broken {
        seq: i64,
        why: String,
    },
}

static OPERATIONS_FROM: Sql = Sql::new(concat!(
    "/* audit::operations_from */ SELECT ",
    operation_columns!(),
    " FROM operations WHERE seq > CAST(?1 AS BIGINT) AND seq <= CAST(?2 AS BIGINT) ORDER BY seq"
));
static CHANGES_FROM: Sql = Sql::new(
    "/* audit::changes_from */ SELECT seq, op_id, source, customer_id, query_name, logical_date, before, after, hash \
     FROM operation_changes WHERE seq > CAST(?1 AS BIGINT) AND seq <= CAST(?2 AS BIGINT) ORDER BY seq",
);

/// A link of the chain as it is stored.
enum Link {
    Operation(Operation),
    Change { op_id: OpId, key: [String; 4], before: Option<String>, after: String },
}

/// How many rows are checked at a time.
const STRETCH: i64 = 10_000;

/// Checks the whole chain, a stretch at a time.
pub(crate) async fn verify(tx: &mut Tx<'_>) -> Result<Verified> {
    let head = head(tx).await?;
    if let Some(seq) = first_between(tx, i64::MIN, 0).await? {
        return Ok(broken(seq, "the row lies before the first"));
    }
    let mut chain = Chain { seq: 0, hash: [0; 32] };
    while chain.seq < head.seq {
        let (from, to) = (chain.seq, head.seq.min(chain.seq.saturating_add(STRETCH)));
        let mut links = tx
            .rows(&OPERATIONS_FROM, &[from.into(), to.into()], |row| {
                let (seq, operation, hash) = read_operation(row)?;
                Ok((seq, Link::Operation(operation), hash))
            })
            .await?;
        links.extend(
            tx.rows(&CHANGES_FROM, &[from.into(), to.into()], |row| {
                let key = [row.text(2)?, row.text(3)?, row.text(4)?, row.text(5)?];
                let op_id = OpId::from_uuid(row.id(1)?);
                let link = Link::Change { op_id, key, before: row.opt_text(6)?, after: row.text(7)? };
                Ok((row.int(0)?, link, row.bytes(8)?))
            })
            .await?,
        );
        links.sort_by_key(|(seq, ..)| *seq);
        for (seq, link, hash) in links {
            let due = chain.seq.saturating_add(1);
            if seq != due {
                return Ok(broken(due, "the row is missing"));
            }
            match &link {
                Link::Operation(operation) => chain.operation(operation),
                Link::Change { op_id, key, before, after } => {
                    chain.change(*op_id, key.each_ref().map(String::as_str), before.as_deref(), after);
                }
            }
            if chain.hash.as_slice() != hash {
                return Ok(broken(seq, "the row is not as it was written"));
            }
        }
        if chain.seq < to {
            return Ok(broken(chain.seq.saturating_add(1), "the row is missing"));
        }
    }
    if chain.hash.as_slice() != head.hash {
        return Ok(broken(head.seq, "the head is not the hash of the last row"));
    }
    match first_between(tx, head.seq, i64::MAX).await? {
        Some(seq) => Ok(broken(seq, "the row lies beyond the head")),
        None => Ok(Verified::Whole(head)),
    }
}

/// The first row after `from` up to `to`, of either table.
async fn first_between(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<Option<i64>> {
    let params = [from.into(), to.into()];
    let change = tx.row(&CHANGES_FROM, &params, |row| row.int(0)).await?;
    let operation = tx.row(&OPERATIONS_FROM, &params, |row| row.int(0)).await?;
    Ok(change.into_iter().chain(operation).min())
}

fn broken(seq: i64, why: &str) -> Verified {
    Verified::Broken { seq, why: why.to_owned() }
}
