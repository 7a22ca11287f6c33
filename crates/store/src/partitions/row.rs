//! How a partition lies in its two tables: their columns, and reading a row.

use std::sync::LazyLock;
use std::time::Duration;

use redrive_core::fingerprint;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::{CustomerId, PartitionKey, QueryName, Source};
use redrive_core::partition::{Control, InFlight, Mark, Partition, PartitionState, Reprocess, Wanted};
use redrive_core::time::{Timestamp, whole_micros};

use super::Period;
use crate::db::columns::{Field, Named, join, named, select_list};
use crate::db::{Cursor, Dialect, Param, Row};
use crate::error::{Error, Result};
use crate::series::Place;

/// Where a row lies.
pub(crate) const KEY: [Field<Place>; 2] = [
    Field::int("series_id", |place| place.series.map(|series| series.id).into()),
    Field::int("period", |place| place.period.into()),
];
pub(crate) const KEY_NAMES: [Named; 2] = named(&KEY);

const SOURCE_NO: Field<Place> = Field::int("source_no", |place| place.series.map(|series| series.source_no).into());
const SCOPE: Field<Place> = Field::int("scope", |place| place.series.map(|series| series.scope.number()).into());

const STATUS: Field<Partition> = Field::text("status", |p| p.state.status.as_str().into());
const CURRENT_RUN: Field<Partition> = Field::id("current_run_id", |p| p.state.current_run_id.map(RunId::uuid).into());
const RECORD_COUNT: Field<Partition> = Field::int("record_count", |p| p.state.record_count.map(int).into());
const ATTEMPT_COUNT: Field<Partition> = Field::int("attempt_count", |p| i64::from(p.state.attempt_count).into());
const SPENT: Field<Partition> =
    Field::int("spent", |p| i64::from(p.state.attempt_count.saturating_sub(p.control.granted)).into());
const ERROR_CLASS: Field<Partition> =
    Field::text("error_class", |p| p.state.error_class.map(|class| class.as_str()).into());
const ERROR_GROUP: Field<Partition> =
    Field::int("error_group", |p| fingerprint::of_partition(&p.state).map(|found| found.group.number()).into());
const ERROR_MESSAGE: Field<Partition> = Field::text("error_message", |p| p.state.error_message.as_ref().into());
const CREATED_AT: Field<Partition> = Field::int("created_at", |p| p.state.created_at.micros().into());
const UPDATED_AT: Field<Partition> = Field::int("updated_at", |p| p.state.updated_at.micros().into());
const VERSION: Field<Partition> = Field::int("version", |p| int(p.state.version).into());
const HELD: Field<Partition> = Field::int("held", |p| p.control.is_held().then_some(1_i64).into());

/// What [`read`] expects of `partitions p`, in this order.
const STATE: [Field<Partition>; 9] =
    [STATUS, CURRENT_RUN, RECORD_COUNT, ATTEMPT_COUNT, ERROR_CLASS, ERROR_MESSAGE, CREATED_AT, UPDATED_AT, VERSION];

const LANE: Field<Partition> = Field::text("lane", |p| p.control.wanted.map(|wanted| wanted.lane.as_str()).into());
const QUEUED_AT: Field<Partition> =
    Field::int("queued_at", |p| p.control.wanted.map(|wanted| wanted.queued_at.micros()).into());

/// What [`read`] expects of `partition_control c` after it, and all that a control row holds besides its place.
pub(super) const CONTROL: [Field<Partition>; 15] = [
    LANE,
    QUEUED_AT,
    Field::int("reprocess", |p| i64::from(p.control.reprocess.is_some()).into()),
    Field::int("rejected", |p| i64::from(p.control.reprocess.unwrap_or_default().rejected).into()),
    Field::int("not_before", |p| p.control.not_before.map(Timestamp::micros).into()),
    Field::int("rate_limit_waited", |p| whole_micros(p.control.rate_limit_waited).into()),
    Field::int("granted", |p| i64::from(p.control.granted).into()),
    Field::text("terminal_by", |p| mark_by(p.control.terminal.as_ref())),
    Field::int("terminal_at", |p| p.control.terminal.as_ref().map(|mark| mark.at.micros()).into()),
    Field::text("terminal_why", |p| mark_why(p.control.terminal.as_ref())),
    Field::text("paused_by", |p| mark_by(p.control.paused.as_ref())),
    Field::int("paused_at", |p| p.control.paused.as_ref().map(|mark| mark.at.micros()).into()),
    Field::text("paused_why", |p| mark_why(p.control.paused.as_ref())),
    Field::id("active_run_id", |p| p.control.active.map(|active| active.run_id.uuid()).into()),
    Field::id("active_task_id", |p| p.control.active.map(|active| active.task_id.uuid()).into()),
];

fn mark_by(mark: Option<&Mark>) -> Param<'_> {
    mark.map(|mark| mark.by.as_str()).into()
}

fn mark_why(mark: Option<&Mark>) -> Param<'_> {
    mark.and_then(|mark| mark.why.as_deref()).into()
}

/// A partition that is made.
pub(super) const NEW_PLACE: [Field<Place>; 3] = [KEY[0], KEY[1], SOURCE_NO];
pub(super) const NEW_STATE: [Field<Partition>; 3] = [STATUS, CREATED_AT, UPDATED_AT];
pub(super) const NEW_NAMES: [Named; 6] = join(named(&NEW_PLACE), named(&NEW_STATE));

/// A control row that is made.
pub(super) const NEW_CONTROL_PLACE: [Field<Place>; 4] = [KEY[0], KEY[1], SOURCE_NO, SCOPE];
pub(super) const NEW_CONTROL_NAMES: [Named; 19] = join(named(&NEW_CONTROL_PLACE), named(&CONTROL));

/// What the control row of a partition holds that is wanted and nothing else.
pub(super) const WANTED: [Field<Partition>; 2] = [LANE, QUEUED_AT];
pub(super) const WANTED_NAMES: [Named; 6] = join(named(&NEW_CONTROL_PLACE), named(&WANTED));

/// What a verdict may change.
pub(super) const OUTCOME: [Field<Partition>; 10] = [
    STATUS,
    CURRENT_RUN,
    RECORD_COUNT,
    ATTEMPT_COUNT,
    SPENT,
    ERROR_CLASS,
    ERROR_GROUP,
    ERROR_MESSAGE,
    UPDATED_AT,
    HELD,
];

/// What the control plane may change, and nothing else: there is no column here for a run, a count or an outcome.
pub(super) const STANDING: [Field<Partition>; 3] = [STATUS, UPDATED_AT, HELD];
/// The same with the message, to which a terminal mark adds a word, and with what a grant takes off the policy's count.
pub(super) const FULL_STANDING: [Field<Partition>; 5] = [STATUS, SPENT, ERROR_MESSAGE, UPDATED_AT, HELD];

/// A count as the database keeps it; anything past its end is its end.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `{partition}`: the columns that [`read`] expects.
static SELECTED: LazyLock<String> = LazyLock::new(|| format!("s.source, s.customer_id, s.query_name, {}", *IN_SERIES));

/// `{in_series}`: the columns that [`read_in`] expects.
static IN_SERIES: LazyLock<String> = LazyLock::new(|| {
    let (state, control) = (select_list("p", &STATE), select_list("c", &CONTROL));
    format!("p.period, {state}, {control}")
});

/// Partitions with their control rows. `CROSS JOIN` tells SQLite to begin at the table that is named first. A subquery that
/// PostgreSQL may not flatten keeps the key of the control row together.
macro_rules! with_control {
    ($from:literal, sqlite) => {
        concat!("FROM ", $from, " LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period")
    };
    ($from:literal, postgres) => {
        concat!(
            "FROM ",
            $from,
            " LEFT JOIN LATERAL (SELECT * FROM partition_control k WHERE k.series_id = p.series_id \
             AND k.period = p.period OFFSET 0) c ON true"
        )
    };
}

/// What a fragment of a statement about partitions stands for.
pub(crate) fn fragment(name: &str, dialect: Dialect) -> Option<&'static str> {
    Some(match (name, dialect) {
        ("partition", _) => SELECTED.as_str(),
        ("in_series", _) => IN_SERIES.as_str(),
        ("with_control", Dialect::Sqlite) => with_control!("partitions p", sqlite),
        // SQLite takes the primary key to be as good, and would read every success.
        ("open_with_control", Dialect::Sqlite) => with_control!("partitions p INDEXED BY partitions_open", sqlite),
        ("group_with_control", Dialect::Sqlite) => with_control!("partitions p INDEXED BY partitions_group", sqlite),
        ("with_control" | "open_with_control" | "group_with_control", Dialect::Postgres) => {
            with_control!("partitions p", postgres)
        }
        ("from_partitions", Dialect::Sqlite) => {
            concat!(with_control!("partitions p CROSS JOIN series s", sqlite), " WHERE p.series_id = s.series_id")
        }
        ("from_partitions", Dialect::Postgres) => {
            concat!(with_control!("partitions p CROSS JOIN series s", postgres), " WHERE p.series_id = s.series_id")
        }
        // What is wanted or withheld has a control row, and such rows are few.
        ("from_control", _) => {
            "FROM partition_control c CROSS JOIN partitions p CROSS JOIN series s \
             WHERE p.series_id = c.series_id AND p.period = c.period AND s.series_id = c.series_id"
        }
        ("from_control_of_series", _) => {
            "FROM series s CROSS JOIN partition_control c CROSS JOIN partitions p \
             WHERE c.series_id = s.series_id AND p.series_id = c.series_id AND p.period = c.period"
        }
        _ => return None,
    })
}

fn bad(error: impl std::fmt::Display) -> Error {
    Error::row("partitions", error)
}

/// How many columns [`read_key`] reads.
pub(crate) const KEY_COLUMNS: usize = 4;

/// Reads a key from the three names of its series and its period.
pub(crate) fn read_key(row: &mut Cursor<'_>) -> Result<PartitionKey> {
    Ok(PartitionKey {
        source: Source::new(row.str()?).map_err(bad)?,
        customer_id: CustomerId::new(row.str()?).map_err(bad)?,
        query_name: QueryName::new(row.str()?).map_err(bad)?,
        logical_date: Period::from_row(row.int()?).date()?,
    })
}

pub(super) fn read(row: &Row<'_>) -> Result<Partition> {
    read_from(&mut row.cursor())
}

pub(super) fn read_from(row: &mut Cursor<'_>) -> Result<Partition> {
    let key = read_key(row)?;
    read_rest(row, key)
}

/// Reads a partition of a series whose names are known; the day of the key that has them does not matter.
pub(super) fn read_in(row: &mut Cursor<'_>, series: &PartitionKey) -> Result<Partition> {
    let logical_date = Period::from_row(row.int()?).date()?;
    read_rest(row, PartitionKey { logical_date, ..series.clone() })
}

fn read_rest(row: &mut Cursor<'_>, key: PartitionKey) -> Result<Partition> {
    let state = PartitionState {
        key,
        status: row.word()?,
        current_run_id: row.opt_id()?.map(RunId::from_uuid),
        record_count: row.opt_int()?.map(u64::try_from).transpose().map_err(bad)?,
        attempt_count: row.count()?,
        error_class: row.opt_word()?,
        error_message: row.opt_text()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        version: row.count()?,
    };
    let control = Control {
        wanted: row.opt_word()?.zip(row.opt_time()?).map(|(lane, queued_at)| Wanted { lane, queued_at }),
        reprocess: reprocess(row.opt_int()?, row.opt_int()?)?,
        not_before: row.opt_time()?,
        rate_limit_waited: Duration::from_micros(u64::try_from(row.opt_int()?.unwrap_or(0)).map_err(bad)?),
        granted: row.opt_int()?.map_or(Ok(0), u32::try_from).map_err(bad)?,
        terminal: mark(row)?,
        paused: mark(row)?,
        active: row
            .opt_id()?
            .zip(row.opt_id()?)
            .map(|(run, task)| InFlight { run_id: RunId::from_uuid(run), task_id: TaskId::from_uuid(task) }),
    };
    Ok(Partition { state, control })
}

fn mark(row: &mut Cursor<'_>) -> Result<Option<Mark>> {
    let (by, at, why) = (row.opt_text()?, row.opt_time()?, row.opt_text()?);
    Ok(by.zip(at).map(|(by, at)| Mark { by, at, why }))
}

fn reprocess(requested: Option<i64>, rejected: Option<i64>) -> Result<Option<Reprocess>> {
    let rejected = u32::try_from(rejected.unwrap_or(0)).map_err(bad)?;
    Ok((requested == Some(1)).then_some(Reprocess { rejected }))
}
