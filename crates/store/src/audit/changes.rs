//! What operations changed: partitions, runs and holds. A row is written in the transaction of the change it tells of.

use std::sync::Arc;

use redrive_core::hold::Hold;
use redrive_core::id::{HoldId, OpId, RunId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlSnapshot, Partition};
use redrive_core::run::{Run, RunSnapshot};
use uuid::Uuid;

use super::chain::{Chain, Covered};
use super::operations::{Operation, begin};
use super::snapshot;
use crate::db::columns::{Field, Named, columns, named};
use crate::db::{Batch, Effect, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::holds::{self, HoldChange};
use crate::partitions::Period;
use crate::series::Place;

impl View {
    /// An operation's changes in their order, after sequence number `after`.
    pub async fn changes(&self, id: OpId, after: i64, limit: u32) -> Result<Vec<(i64, AuditedChange)>> {
        read!(self, "changes", |tx, id, after, limit| changes(tx, *id, *after, *limit))
    }
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Partition(PartitionKey),
    Run(RunId),
    Hold(HoldId),
}

/// What an operation did to one subject. Nothing was there before it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedChange {
    pub subject: Subject,
    /// JSON.
    pub before: Option<String>,
    /// JSON.
    pub after: String,
}

impl AuditedChange {
    /// What could be changed of a partition, before and after.
    pub fn snapshots(&self) -> Result<(Option<ControlSnapshot>, ControlSnapshot)> {
        Ok((self.before.as_deref().map(snapshot::read).transpose()?, snapshot::read(&self.after)?))
    }
}

impl AuditedChange {
    /// What could be changed of a run, before and after.
    pub fn run_snapshots(&self) -> Result<(RunSnapshot, RunSnapshot)> {
        let read = |text: &str| serde_json::from_str(text).map_err(|error| Error::row("operation_changes", error));
        let before =
            self.before.as_deref().ok_or_else(|| Error::row("operation_changes", "no operation makes a run"))?;
        Ok((read(before)?, read(&self.after)?))
    }

    /// A hold before and after.
    pub fn hold_change(&self) -> Result<HoldChange> {
        let before = self.before.as_deref().map_or(Ok(None), holds::snapshot::read)?;
        Ok(HoldChange { before, after: holds::snapshot::read(&self.after)? })
    }
}

/// A change written out as its row will hold it; made before the transaction, which is for writing.
#[derive(Debug, Clone)]
pub(crate) struct WrittenChange {
    /// The state before, if there was one, and behind it the state after.
    text: String,
    after_from: Option<usize>,
}

impl WrittenChange {
    pub(crate) fn of_partition(before: Option<&Partition>, after: &Partition) -> Self {
        let mut text = String::with_capacity(if before.is_some() { 192 } else { 128 });
        let after_from = before.map(|before| {
            snapshot::write(before, &mut text);
            text.len()
        });
        snapshot::write(after, &mut text);
        Self { text, after_from }
    }

    pub(crate) fn of_run(before: &Run, after: &Run) -> Result<Self> {
        let written =
            |run: &Run| serde_json::to_string(&run.snapshot()).map_err(|error| Error::row("operation_changes", error));
        let mut text = written(before)?;
        let after_from = Some(text.len());
        text.push_str(&written(after)?);
        Ok(Self { text, after_from })
    }

    pub(crate) fn of_hold(before: Option<&Hold>, after: Option<&Hold>) -> Result<Self> {
        let mut text = before.map_or(Ok(String::new()), |before| holds::snapshot::write(Some(before)))?;
        let after_from = before.map(|_| text.len());
        text.push_str(&holds::snapshot::write(after)?);
        Ok(Self { text, after_from })
    }

    fn before(&self) -> Option<&str> {
        self.after_from.map(|from| &self.text[..from])
    }

    fn after(&self) -> &str {
        &self.text[self.after_from.unwrap_or(0)..]
    }
}

/// What a change is about, and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlacedSubject<'a> {
    Partition(&'a PartitionKey, Place),
    Run(RunId),
    Hold(HoldId),
}

impl<'a> PlacedSubject<'a> {
    fn place(self) -> Option<Place> {
        match self {
            Self::Partition(_, place) => Some(place),
            Self::Run(_) | Self::Hold(_) => None,
        }
    }

    fn run(self) -> Option<Uuid> {
        match self {
            Self::Partition(..) | Self::Hold(_) => None,
            Self::Run(id) => Some(id.uuid()),
        }
    }

    fn hold(self) -> Option<Uuid> {
        match self {
            Self::Partition(..) | Self::Run(_) => None,
            Self::Hold(id) => Some(id.uuid()),
        }
    }

    fn covered(self) -> Covered<'a> {
        match self {
            Self::Partition(key, place) => Covered::Partition {
                names: [key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str()],
                period: place.period.number(),
            },
            Self::Run(id) => Covered::Run(id.uuid()),
            Self::Hold(id) => Covered::Hold(id.uuid()),
        }
    }
}

/// A change that is to be recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewChange<'a> {
    pub(crate) subject: PlacedSubject<'a>,
    pub(crate) written: &'a WrittenChange,
}

/// The row of a change that is to be recorded.
struct NewRow<'a> {
    seq: i64,
    operation: i64,
    change: NewChange<'a>,
    hash: [u8; 32],
}

const fn fields<'r>() -> [Field<NewRow<'r>>; 9] {
    [
        Field::int("seq", |row| row.seq.into()),
        Field::int("operation_seq", |row| row.operation.into()),
        Field::int("series_id", |row| {
            row.change.subject.place().and_then(|place| place.series).map(|series| series.id).into()
        }),
        Field::int("period", |row| row.change.subject.place().map(|place| place.period.number()).into()),
        Field::id("run_id", |row| row.change.subject.run().into()),
        Field::id("hold_id", |row| row.change.subject.hold().into()),
        Field::text("before", |row| row.change.written.before().into()),
        Field::text("after", |row| row.change.written.after().into()),
        Field::bytes("hash", |row| row.hash.as_slice().into()),
    ]
}
const NAMES: [Named; 9] = named(&fields());

static INSERT: Batch = Batch::new(
    "/* audit::insert_changes */
     INSERT INTO operation_changes ({columns})
     {values}",
    &NAMES,
    Effect::All,
);

/// How many rows are inserted by one statement: while PostgreSQL inserts some, the next are hashed.
const STRETCH: usize = 2000;

/// Adds an operation's changes to the chain, and the operation itself before its first.
pub(crate) async fn record(tx: &mut Tx<'_>, operation: &Operation, changes: &[NewChange<'_>]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let (mut chain, operation) = begin(tx, operation).await?;
    for stretch in changes.chunks(STRETCH) {
        let mut rows = Vec::with_capacity(stretch.len());
        for &change in stretch {
            let written = change.written;
            chain.change(operation, change.subject.covered(), written.before(), written.after());
            rows.push(NewRow { seq: chain.seq, operation, change, hash: chain.hash });
        }
        tx.batch(&INSERT, &columns(&fields(), &rows.iter().collect::<Vec<_>>())).await?;
    }
    chain.store(tx).await
}

/// `{change}`: what [`StoredChange::read`] expects of `operation_changes c` with its series `s`, if it has one.
pub(super) const COLUMNS: &str = "c.seq, c.operation_seq, s.source, s.customer_id, s.query_name, c.period, c.run_id, c.hold_id, c.before, c.after, c.hash";

/// A change as its row has it.
pub(super) struct StoredChange {
    pub(super) seq: i64,
    pub(super) hash: Vec<u8>,
    operation: i64,
    names: Option<[String; 3]>,
    period: Option<i64>,
    run_id: Option<Uuid>,
    hold_id: Option<Uuid>,
    before: Option<String>,
    after: String,
}

impl StoredChange {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        let (seq, operation) = (row.int()?, row.int()?);
        let names = match (row.opt_text()?, row.opt_text()?, row.opt_text()?) {
            (Some(source), Some(customer_id), Some(query_name)) => Some([source, customer_id, query_name]),
            _ => None,
        };
        let (period, run_id, hold_id) = (row.opt_int()?, row.opt_id()?, row.opt_id()?);
        let (before, after, hash) = (row.opt_text()?, row.text()?, row.bytes()?);
        Ok(Self { seq, hash, operation, names, period, run_id, hold_id, before, after })
    }

    /// Adds the row to a chain that is checked; says whether the row is about anything.
    pub(super) fn link(&self, chain: &mut Chain) -> bool {
        let covered = match (&self.names, self.period, self.run_id, self.hold_id) {
            (Some(names), Some(period), None, None) => {
                Covered::Partition { names: names.each_ref().map(String::as_str), period }
            }
            (None, None, Some(run_id), None) => Covered::Run(run_id),
            (None, None, None, Some(hold_id)) => Covered::Hold(hold_id),
            _ => return false,
        };
        chain.change(self.operation, covered, self.before.as_deref(), &self.after);
        true
    }

    fn parse(self) -> Result<AuditedChange> {
        let bad = |why: String| Error::row("operation_changes", why);
        let subject = match (self.names, self.period, self.run_id, self.hold_id) {
            (Some([source, customer_id, query_name]), Some(period), None, None) => Subject::Partition(PartitionKey {
                source: source.try_into().map_err(|error| Error::row("series", error))?,
                customer_id: customer_id.try_into().map_err(|error| Error::row("series", error))?,
                query_name: query_name.try_into().map_err(|error| Error::row("series", error))?,
                logical_date: Period::from_row(period).date()?,
            }),
            (None, None, Some(run_id), None) => Subject::Run(RunId::from_uuid(run_id)),
            (None, None, None, Some(hold_id)) => Subject::Hold(HoldId::from_uuid(hold_id)),
            _ => return Err(bad(format!("row {} is about no partition, run or hold", self.seq))),
        };
        Ok(AuditedChange { subject, before: self.before, after: self.after })
    }
}

static CHANGES: Sql = Sql::new(
    "/* audit::changes */
     SELECT {change}
     FROM operation_changes c
     LEFT JOIN series s ON s.series_id = c.series_id
     WHERE c.operation_seq = (
             SELECT seq
             FROM operations
             WHERE op_id = ?1)
         AND c.seq > CAST(?2 AS BIGINT)
     ORDER BY c.seq
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

pub(super) static CHANGES_FROM: Sql = Sql::new(
    "/* audit::changes_from */
     SELECT {change}
     FROM operation_changes c
     LEFT JOIN series s ON s.series_id = c.series_id
     WHERE c.seq > CAST(?1 AS BIGINT) AND c.seq <= CAST(?2 AS BIGINT)
     ORDER BY c.seq",
);
