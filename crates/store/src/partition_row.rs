//! How a partition lies in its two tables: reading, inserting, and writing a change under its version's guard.

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::{LogicalDate, PartitionKey};
use redrive_core::partition::{Change, Control, InFlight, Mark, Partition, PartitionState, Reprocess, Wanted};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Effect, Kind, Row, Tx};
use crate::error::{Error, Result};

/// The columns that [`read`] expects, of `partitions p` joined with `partition_control c`.
macro_rules! partition_columns {
    () => {
        "p.source, p.customer_id, p.query_name, p.logical_date, p.status, p.current_run_id, p.record_count, \
         p.attempt_count, p.error_class, p.error_message, p.created_at, p.updated_at, p.version, c.lane, c.queued_at, \
         c.reprocess, c.not_before, c.terminal_by, c.terminal_at, c.terminal_why, c.paused_by, c.paused_at, \
         c.paused_why, c.active_run_id, c.active_task_id"
    };
}

macro_rules! partition_tables {
    () => {
        "partitions p {with_control}"
    };
}
pub(crate) use {partition_columns, partition_tables};

fn bad(error: impl std::fmt::Display) -> Error {
    Error::row("partitions", error)
}

pub(crate) fn key(row: &Row<'_>, first: usize) -> Result<PartitionKey> {
    Ok(PartitionKey {
        source: row.text(first)?.try_into().map_err(bad)?,
        customer_id: row.text(first + 1)?.try_into().map_err(bad)?,
        query_name: row.text(first + 2)?.try_into().map_err(bad)?,
        logical_date: row.word(first + 3)?,
    })
}

pub(crate) fn read(row: &Row<'_>) -> Result<Partition> {
    let time = |nth| Ok::<_, Error>(row.opt_int(nth)?.map(Timestamp::from_micros));
    let mark = |by: usize| -> Result<Option<Mark>> {
        let (Some(who), Some(at)) = (row.opt_text(by)?, time(by + 1)?) else { return Ok(None) };
        Ok(Some(Mark { by: who, at, why: row.opt_text(by + 2)? }))
    };
    let state = PartitionState {
        key: key(row, 0)?,
        status: row.word(4)?,
        current_run_id: row.opt_id(5)?.map(RunId::from_uuid),
        record_count: row.opt_int(6)?.map(u64::try_from).transpose().map_err(bad)?,
        attempt_count: row.int(7)?.try_into().map_err(bad)?,
        error_class: row.opt_word(8)?,
        error_message: row.opt_text(9)?,
        created_at: Timestamp::from_micros(row.int(10)?),
        updated_at: Timestamp::from_micros(row.int(11)?),
        version: row.int(12)?.try_into().map_err(bad)?,
    };
    let wanted = match (row.opt_word(13)?, time(14)?) {
        (Some(lane), Some(queued_at)) => Some(Wanted { lane, queued_at }),
        _ => None,
    };
    let active = match (row.opt_id(23)?, row.opt_id(24)?) {
        (Some(run), Some(task)) => Some(InFlight { run_id: RunId::from_uuid(run), task_id: TaskId::from_uuid(task) }),
        _ => None,
    };
    let control = Control {
        wanted,
        reprocess: reprocess(row.opt_int(15)?.unwrap_or(0))?,
        not_before: time(16)?,
        terminal: mark(17)?,
        paused: mark(20)?,
        active,
    };
    Ok(Partition { state, control })
}

/// A request to reprocess is kept as one more than its rejected attempts, and none as 0.
fn reprocess(kept: i64) -> Result<Option<Reprocess>> {
    let kept = u32::try_from(kept).map_err(bad)?;
    Ok(kept.checked_sub(1).map(|rejected| Reprocess { rejected }))
}

fn reprocess_kept(partition: &&Partition) -> Option<i64> {
    Some(partition.control.reprocess.map_or(0, |request| i64::from(request.rejected) + 1))
}

/// A count as the database keeps it; anything past its end is its end.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Logical dates are kept as text; they are written out once for each batch.
pub(crate) fn dates<'k>(keys: impl Iterator<Item = &'k PartitionKey>) -> Vec<String> {
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

const KEY: [(&str, Kind); 4] =
    [("source", Kind::Text), ("customer_id", Kind::Text), ("query_name", Kind::Text), ("logical_date", Kind::Text)];

fn key_columns<'a, T>(rows: &'a [T], dates: &'a [String], key: impl Fn(&'a T) -> &'a PartitionKey) -> [Column<'a>; 4] {
    [
        Column::texts(rows, |row| Some(key(row).source.as_str())),
        Column::texts(rows, |row| Some(key(row).customer_id.as_str())),
        Column::texts(rows, |row| Some(key(row).query_name.as_str())),
        Column::texts(dates, |date| Some(date.as_str())),
    ]
}

static INSERT: Batch = Batch::new(
    "/* partition_row::insert */ INSERT INTO partitions (source, customer_id, query_name, logical_date, status, \
     attempt_count, created_at, updated_at, version) {values @source, @customer_id, @query_name, @logical_date, @status, 0, \
     @created_at, @created_at, 1} ON CONFLICT DO NOTHING",
    &[KEY[0], KEY[1], KEY[2], KEY[3], ("status", Kind::Text), ("created_at", Kind::Int)],
    Effect::Inserted(&["source", "customer_id", "query_name", "logical_date"]),
);

/// Inserts partitions that are not there yet; says of each whether it was new. Keys must not repeat.
pub(crate) async fn insert(tx: &mut Tx<'_>, partitions: &[Partition]) -> Result<Vec<bool>> {
    let dates = dates(partitions.iter().map(|partition| &partition.state.key));
    let [source, customer, query, date] = key_columns(partitions, &dates, |partition| &partition.state.key);
    let columns = [
        source,
        customer,
        query,
        date,
        Column::texts(partitions, |partition| Some(partition.state.status.as_str())),
        Column::ints(partitions, |partition| Some(partition.state.created_at.micros())),
    ];
    let new = tx.batch(&INSERT, &columns).await?;
    let inserted: Vec<&Partition> =
        partitions.iter().zip(&new).filter_map(|(partition, new)| new.then_some(partition)).collect();
    put_control(tx, &NEW_CONTROL, &inserted).await?;
    Ok(new)
}

static UPDATE: Batch = Batch::new(
    "/* partition_row::write */ UPDATE partitions SET status = @status, current_run_id = @current_run_id, \
     record_count = @record_count, attempt_count = @attempt_count, error_class = @error_class, \
     error_message = @error_message, updated_at = @updated_at, version = @expect_version + 1, held = @held {from} \
     WHERE source = @source AND customer_id = @customer_id AND query_name = @query_name AND logical_date = @logical_date \
     AND version = @expect_version",
    &[
        KEY[0],
        KEY[1],
        KEY[2],
        KEY[3],
        ("status", Kind::Text),
        ("current_run_id", Kind::Id),
        ("record_count", Kind::Int),
        ("attempt_count", Kind::Int),
        ("error_class", Kind::Text),
        ("error_message", Kind::Text),
        ("updated_at", Kind::Int),
        ("held", Kind::Int),
        ("expect_version", Kind::Int),
    ],
    Effect::Row,
);

/// What the control plane may change, and nothing else: there is no column here for a run, a count or an outcome.
static UPDATE_STANDING: Batch = Batch::new(
    "/* partition_row::write_standing */ UPDATE partitions SET status = @status, error_message = @error_message, \
     updated_at = @updated_at, version = @expect_version + 1, held = @held {from} \
     WHERE source = @source AND customer_id = @customer_id AND query_name = @query_name AND logical_date = @logical_date \
     AND version = @expect_version",
    &[
        KEY[0],
        KEY[1],
        KEY[2],
        KEY[3],
        ("status", Kind::Text),
        ("error_message", Kind::Text),
        ("updated_at", Kind::Int),
        ("held", Kind::Int),
        ("expect_version", Kind::Int),
    ],
    Effect::Row,
);

/// Writes the control plane's changes whose partition is still as it was; says of each whether it was.
pub(crate) async fn write_standing(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    let order = KeyOrder::of(changes);
    let changes = order.sorted(changes);
    let dates = dates(changes.iter().map(|change| &change.after.state.key));
    let [source, customer, query, date] = key_columns(&changes, &dates, |change| &change.after.state.key);
    let columns = [
        source,
        customer,
        query,
        date,
        Column::texts(&changes, |change| Some(change.after.state.status.as_str())),
        Column::texts(&changes, |change| change.after.state.error_message.as_deref()),
        Column::ints(&changes, |change| Some(change.after.state.updated_at.micros())),
        Column::ints(&changes, |change| Some(i64::from(change.after.control.is_held()))),
        Column::ints(&changes, |change| Some(int(change.expect_version))),
    ];
    let took = tx.batch(&UPDATE_STANDING, &columns).await?;
    write_control(tx, &changes, &took).await?;
    Ok(order.restore(&took))
}

/// Writes the data plane's changes whose partition is still as it was; says of each whether it was.
pub(crate) async fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    let order = KeyOrder::of(changes);
    let changes = order.sorted(changes);
    let dates = dates(changes.iter().map(|change| &change.after.state.key));
    let [source, customer, query, date] = key_columns(&changes, &dates, |change| &change.after.state.key);
    let columns = [
        source,
        customer,
        query,
        date,
        Column::texts(&changes, |change| Some(change.after.state.status.as_str())),
        Column::ids(&changes, |change| change.after.state.current_run_id.map(RunId::uuid)),
        Column::ints(&changes, |change| change.after.state.record_count.map(int)),
        Column::ints(&changes, |change| Some(i64::from(change.after.state.attempt_count))),
        Column::texts(&changes, |change| change.after.state.error_class.map(|class| class.as_str())),
        Column::texts(&changes, |change| change.after.state.error_message.as_deref()),
        Column::ints(&changes, |change| Some(change.after.state.updated_at.micros())),
        Column::ints(&changes, |change| Some(i64::from(change.after.control.is_held()))),
        Column::ints(&changes, |change| Some(int(change.expect_version))),
    ];
    let took = tx.batch(&UPDATE, &columns).await?;
    write_control(tx, &changes, &took).await?;
    Ok(order.restore(&took))
}

/// Rows are written in key order, whatever order they came in: two transactions that lock the same rows then meet at the
/// first of them, and neither waits for the other in a circle.
struct KeyOrder(Vec<usize>);

impl KeyOrder {
    fn of(changes: &[Change]) -> Self {
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by(|&a, &b| changes[a].after.state.key.cmp(&changes[b].after.state.key));
        Self(order)
    }

    fn sorted<'c>(&self, changes: &'c [Change]) -> Vec<&'c Change> {
        self.0.iter().map(|&nth| &changes[nth]).collect()
    }

    /// Answers in the order of the questions.
    fn restore(&self, sorted: &[bool]) -> Vec<bool> {
        let mut restored = vec![false; sorted.len()];
        for (&nth, &answer) in self.0.iter().zip(sorted) {
            restored[nth] = answer;
        }
        restored
    }
}

/// Keeps or forgets the control rows of the changes that took effect.
async fn write_control(tx: &mut Tx<'_>, changes: &[&Change], took: &[bool]) -> Result<()> {
    let (mut new, mut kept, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    for (change, _) in changes.iter().zip(took).filter(|(_, took)| **took) {
        match (change.had_control, change.after.control.is_empty()) {
            (false, false) => new.push(&change.after),
            (true, false) => kept.push(&change.after),
            (true, true) => forgotten.push(&change.after),
            (false, true) => {}
        }
    }
    put_control(tx, &NEW_CONTROL, &new).await?;
    put_control(tx, &PUT_CONTROL, &kept).await?;
    forget_control(tx, &forgotten).await
}

macro_rules! insert_control {
    () => {
        "INSERT INTO partition_control (source, customer_id, query_name, logical_date, lane, queued_at, reprocess, \
         not_before, terminal_by, terminal_at, terminal_why, paused_by, paused_at, paused_why, active_run_id, \
         active_task_id) {values @source, @customer_id, @query_name, @logical_date, @lane, @queued_at, @reprocess, \
         @not_before, @terminal_by, @terminal_at, @terminal_why, @paused_by, @paused_at, @paused_why, @active_run_id, \
         @active_task_id}"
    };
}

const CONTROL: [(&str, Kind); 16] = [
    KEY[0],
    KEY[1],
    KEY[2],
    KEY[3],
    ("lane", Kind::Text),
    ("queued_at", Kind::Int),
    ("reprocess", Kind::Int),
    ("not_before", Kind::Int),
    ("terminal_by", Kind::Text),
    ("terminal_at", Kind::Int),
    ("terminal_why", Kind::Text),
    ("paused_by", Kind::Text),
    ("paused_at", Kind::Int),
    ("paused_why", Kind::Text),
    ("active_run_id", Kind::Id),
    ("active_task_id", Kind::Id),
];

/// For partitions that had no control row: the version's guard says so.
static NEW_CONTROL: Batch =
    Batch::new(concat!("/* partition_row::new_control */ ", insert_control!()), &CONTROL, Effect::All);

static PUT_CONTROL: Batch = Batch::new(
    concat!(
        "/* partition_row::put_control */ ",
        insert_control!(),
        " ON CONFLICT (source, customer_id, query_name, logical_date) \
         DO UPDATE SET lane = excluded.lane, queued_at = excluded.queued_at, reprocess = excluded.reprocess, \
         not_before = excluded.not_before, terminal_by = excluded.terminal_by, terminal_at = excluded.terminal_at, \
         terminal_why = excluded.terminal_why, paused_by = excluded.paused_by, paused_at = excluded.paused_at, \
         paused_why = excluded.paused_why, active_run_id = excluded.active_run_id, \
         active_task_id = excluded.active_task_id"
    ),
    &CONTROL,
    Effect::All,
);

async fn put_control(tx: &mut Tx<'_>, sql: &Batch, partitions: &[&Partition]) -> Result<()> {
    let dates = dates(partitions.iter().map(|partition| &partition.state.key));
    let [source, customer, query, date] = key_columns(partitions, &dates, |partition| &partition.state.key);
    let terminal = |partition: &&'_ Partition| partition.control.terminal.as_ref().map(|mark| mark.at.micros());
    let paused = |partition: &&'_ Partition| partition.control.paused.as_ref().map(|mark| mark.at.micros());
    let columns = [
        source,
        customer,
        query,
        date,
        Column::texts(partitions, |p| p.control.wanted.map(|wanted| wanted.lane.as_str())),
        Column::ints(partitions, |p| p.control.wanted.map(|wanted| wanted.queued_at.micros())),
        Column::ints(partitions, reprocess_kept),
        Column::ints(partitions, |p| p.control.not_before.map(Timestamp::micros)),
        Column::texts(partitions, |p| p.control.terminal.as_ref().map(|mark| mark.by.as_str())),
        Column::ints(partitions, terminal),
        Column::texts(partitions, |p| p.control.terminal.as_ref().and_then(|mark| mark.why.as_deref())),
        Column::texts(partitions, |p| p.control.paused.as_ref().map(|mark| mark.by.as_str())),
        Column::ints(partitions, paused),
        Column::texts(partitions, |p| p.control.paused.as_ref().and_then(|mark| mark.why.as_deref())),
        Column::ids(partitions, |p| p.control.active.map(|active| active.run_id.uuid())),
        Column::ids(partitions, |p| p.control.active.map(|active| active.task_id.uuid())),
    ];
    tx.batch(sql, &columns).await.map(drop)
}

static FORGET_CONTROL: Batch = Batch::new(
    "/* partition_row::forget_control */ DELETE FROM partition_control {using} WHERE source = @source \
     AND customer_id = @customer_id AND query_name = @query_name AND logical_date = @logical_date",
    &KEY,
    Effect::All,
);

async fn forget_control(tx: &mut Tx<'_>, partitions: &[&Partition]) -> Result<()> {
    let dates = dates(partitions.iter().map(|partition| &partition.state.key));
    let columns = key_columns(partitions, &dates, |partition| &partition.state.key);
    tx.batch(&FORGET_CONTROL, &columns).await.map(drop)
}
