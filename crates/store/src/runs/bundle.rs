//! Bundles: jobs that one claim took for their first attempt, up to 64 of them in one row of `run_bundles`.
//!
//! Such claims differ in nothing but the ids of their runs, so that one row says all of them: a claim of a thousand jobs writes sixteen
//! rows, and a heartbeat prolongs sixteen leases. A run whose claim ends, whichever way, is taken out of its bundle; the row goes
//! with its last run. Who finds a run that has left its bundle meanwhile looks again, as with any claim.

use std::collections::{BTreeMap, HashSet};

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Change, Run, Workload};
use redrive_core::time::Timestamp;
use uuid::Uuid;

use crate::db::columns::{Field, Named, columns, named};
use crate::db::{Batch, Column, Cursor, Effect, Kind, Lookup, Param, Sql, Tx};
use crate::error::{Error, Result};

/// The most runs of a bundle. Their ids take 1 KiB, which lies in a row without being stored apart.
pub(crate) const MOST: usize = 64;
/// From how many jobs on a claim makes bundles of them. Fewer have a row of `run_claims` each.
pub(super) const FEWEST: usize = 16;
/// A job that was never claimed before has this version while it runs.
const VERSION: u64 = 2;
const ID_BYTES: usize = size_of::<Uuid>();

#[derive(Debug, Clone)]
struct Bundle {
    task_id: TaskId,
    /// With the task, the key of the row. The run itself may have left.
    first: RunId,
    last: RunId,
    category: String,
    worker: String,
    started_at: Timestamp,
    last_heartbeat: Timestamp,
    lease_until: Timestamp,
    /// The ids of its runs in their order, [`ID_BYTES`] each.
    runs: Vec<u8>,
}

impl Bundle {
    /// The bundle of runs that a claim has just taken, in the order of their ids. None where one of them is not claimed.
    fn of(runs: &[&Run]) -> Option<Self> {
        let (first, last) = (runs.first()?, runs.last()?);
        Some(Self {
            task_id: first.task_id?,
            first: first.run_id,
            last: last.run_id,
            category: first.work.category().to_owned(),
            worker: first.worker.clone()?,
            started_at: first.started_at?,
            last_heartbeat: first.last_heartbeat?,
            lease_until: first.lease_until?,
            runs: bytes_of(runs.iter().map(|run| run.run_id)),
        })
    }

    fn ids(&self) -> impl Iterator<Item = RunId> {
        ids_in(&self.runs)
    }

    /// The same with only these of its runs, which are in order.
    fn with(&self, runs: &[RunId]) -> Option<Self> {
        let (first, last) = (*runs.first()?, *runs.last()?);
        Some(Self { first, last, runs: bytes_of(runs.iter().copied()), ..self.clone() })
    }
}

fn bytes_of(ids: impl Iterator<Item = RunId>) -> Vec<u8> {
    ids.flat_map(|id| *id.uuid().as_bytes()).collect()
}

fn ids_in(runs: &[u8]) -> impl Iterator<Item = RunId> {
    runs.as_chunks::<ID_BYTES>().0.iter().map(|id| RunId::from_uuid(Uuid::from_bytes(*id)))
}

/// Whether a job has just been claimed for the first time.
pub(super) fn is_first_claim(run: &&Run) -> bool {
    run.version == VERSION
}

/// Whether a run whose claim is about to end may be in a bundle.
pub(super) fn may_hold(change: &Change) -> bool {
    change.after.workload() == Workload::Process && change.expect_version == VERSION
}

const FIELDS: [Field<Bundle>; 9] = [
    Field::id("task_id", |bundle| bundle.task_id.uuid().into()),
    Field::id("first_run", |bundle| bundle.first.uuid().into()),
    Field::id("last_run", |bundle| bundle.last.uuid().into()),
    Field::text("category", |bundle| bundle.category.as_str().into()),
    Field::text("worker", |bundle| bundle.worker.as_str().into()),
    Field::int("started_at", |bundle| bundle.started_at.micros().into()),
    Field::int("last_heartbeat", |bundle| bundle.last_heartbeat.micros().into()),
    Field::int("lease_until", |bundle| bundle.lease_until.micros().into()),
    Field::bytes("runs", |bundle| bundle.runs.as_slice().into()),
];
const NAMES: [Named; 9] = named(&FIELDS);

/// What [`read`] expects.
macro_rules! bundle_columns {
    () => {
        "task_id, first_run, last_run, category, worker, started_at, last_heartbeat, lease_until, runs"
    };
}

fn read(row: &mut Cursor<'_>) -> Result<Bundle> {
    Ok(Bundle {
        task_id: TaskId::from_uuid(row.id()?),
        first: RunId::from_uuid(row.id()?),
        last: RunId::from_uuid(row.id()?),
        category: row.text()?,
        worker: row.text()?,
        started_at: row.time()?,
        last_heartbeat: row.time()?,
        lease_until: row.time()?,
        runs: row.bytes()?,
    })
}

pub(crate) static PUT: Batch = Batch::new(
    "/* bundles::put */
     INSERT INTO run_bundles ({columns})
     {values}",
    &NAMES,
    Effect::All,
);

/// Holds jobs of one category that a claim has just taken, none of which was claimed before, in the order of their ids.
pub(super) async fn put(tx: &mut Tx<'_>, runs: &[&Run]) -> Result<()> {
    let bundles: Option<Vec<Bundle>> = runs.chunks(MOST).map(Bundle::of).collect();
    let unclaimed = || Error::Statement { name: "put bundles", why: "a run is not claimed".to_owned() };
    put_all(tx, &bundles.ok_or_else(unclaimed)?).await
}

async fn put_all(tx: &mut Tx<'_>, bundles: &[Bundle]) -> Result<()> {
    tx.batch(&PUT, &columns(&FIELDS, &bundles.iter().collect::<Vec<_>>())).await.map(drop)
}

const KEY: [Field<Bundle>; 2] = [FIELDS[0], FIELDS[1]];
const KEY_NAMES: [Named; 2] = named(&KEY);

pub(crate) static REMOVE: Batch = Batch::new(
    "/* bundles::remove */
     DELETE FROM run_bundles
     {using}
     WHERE run_bundles.task_id = @task_id
       AND run_bundles.first_run = @first_run",
    &KEY_NAMES,
    Effect::All,
);

async fn remove(tx: &mut Tx<'_>, bundles: &[Bundle]) -> Result<()> {
    tx.batch(&REMOVE, &columns(&KEY, &bundles.iter().collect::<Vec<_>>())).await.map(drop)
}

/// Those of a task that may hold runs of a stretch, locked. They are kept until this transaction ends.
static OF_TASK: Lookup = Lookup::new(
    concat!(
        "/* bundles::of_task */
     SELECT ",
        bundle_columns!(),
        "
     FROM run_bundles
     WHERE run_bundles.task_id = @task_id
       AND first_run <= @to
       AND last_run >= @from
     ORDER BY first_run
     {lock}"
    ),
    &[("task_id", Kind::Id), ("from", Kind::Id), ("to", Kind::Id)],
);

/// The bundles that may hold these runs of some tasks, task by task.
async fn of_tasks(tx: &mut Tx<'_>, runs: &BTreeMap<TaskId, Vec<RunId>>) -> Result<Vec<Bundle>> {
    let asked: Vec<(TaskId, RunId, RunId)> =
        runs.iter().filter_map(|(task, runs)| Some((*task, *runs.iter().min()?, *runs.iter().max()?))).collect();
    let values = [
        Column::ids(&asked, |(task, ..)| Some(task.uuid())),
        Column::ids(&asked, |(_, from, _)| Some(from.uuid())),
        Column::ids(&asked, |(.., to)| Some(to.uuid())),
    ];
    Ok(tx.lookup(&OF_TASK, &values, |mut row| read(&mut row)).await?.into_iter().map(|(_, bundle)| bundle).collect())
}

static KEEP: Batch = Batch::new(
    "/* bundles::keep */
     UPDATE run_bundles
     SET runs = @runs
     {from}
     WHERE run_bundles.task_id = @task_id
       AND run_bundles.first_run = @first_run",
    &[KEY_NAMES[0], KEY_NAMES[1], ("runs", Kind::Bytes)],
    Effect::All,
);

/// Takes runs out of their bundles where they are held as their changes expect; says of each change whether it was.
pub(super) async fn take(tx: &mut Tx<'_>, changes: &[&Change]) -> Result<Vec<bool>> {
    let mut wanted: BTreeMap<TaskId, Vec<RunId>> = BTreeMap::new();
    let mut places: Vec<(RunId, TaskId, usize)> = Vec::with_capacity(changes.len());
    for (nth, change) in changes.iter().enumerate() {
        if let Some(task) = change.expect_task {
            wanted.entry(task).or_default().push(change.after.run_id);
            places.push((change.after.run_id, task, nth));
        }
    }
    places.sort_unstable();
    let (mut took, mut emptied, mut left) = (vec![false; changes.len()], Vec::new(), Vec::new());
    for mut bundle in of_tasks(tx, &wanted).await? {
        let (all, task) = (bundle.runs.len(), bundle.task_id);
        let mut staying = Vec::with_capacity(all);
        for id in bundle.ids() {
            match places.binary_search_by_key(&(id, task), |(id, task, _)| (*id, *task)) {
                Ok(found) => took[places[found].2] = true,
                Err(_) => staying.extend(id.uuid().as_bytes()),
            }
        }
        bundle.runs = staying;
        match bundle.runs.len() {
            0 => emptied.push(bundle),
            some if some < all => left.push(bundle),
            _ => {}
        }
    }
    remove(tx, &emptied).await?;
    let mut values = columns(&KEY, &left.iter().collect::<Vec<_>>());
    values.push(Column::Bytes(left.iter().map(|bundle| Some(bundle.runs.as_slice())).collect()));
    tx.batch(&KEEP, &values).await?;
    Ok(took)
}

static PROLONG: Batch = Batch::new(
    "/* bundles::prolong */
     UPDATE run_bundles
     SET last_heartbeat = @now, lease_until = @until
     {from}
     WHERE run_bundles.task_id = @task_id
       AND run_bundles.first_run = @first_run",
    &[KEY_NAMES[0], KEY_NAMES[1], ("now", Kind::Int), ("until", Kind::Int)],
    Effect::All,
);

/// Prolongs the leases of runs that are in bundles and whose leases have not passed; gives those runs. A run of the same bundle of
/// which the worker does not speak any more is left to its lease, in a bundle of its own.
pub(super) async fn beat(
    tx: &mut Tx<'_>,
    held: &[(RunId, TaskId)],
    passed: Timestamp,
    now: Timestamp,
    until: Timestamp,
) -> Result<HashSet<RunId>> {
    let mut wanted: BTreeMap<TaskId, Vec<RunId>> = BTreeMap::new();
    for (run, task) in held {
        wanted.entry(*task).or_default().push(*run);
    }
    let spoken_of: HashSet<(RunId, TaskId)> = held.iter().copied().collect();
    let (mut beaten, mut whole, mut split, mut parts) = (HashSet::new(), Vec::new(), Vec::new(), Vec::new());
    for bundle in of_tasks(tx, &wanted).await?.into_iter().filter(|bundle| bundle.lease_until > passed) {
        let (here, others): (Vec<RunId>, Vec<RunId>) =
            bundle.ids().partition(|run| spoken_of.contains(&(*run, bundle.task_id)));
        beaten.extend(&here);
        if others.is_empty() {
            whole.push(bundle);
        } else if let Some(prolonged) = bundle.with(&here) {
            parts.push(Bundle { last_heartbeat: now, lease_until: until, ..prolonged });
            parts.extend(bundle.with(&others));
            split.push(bundle);
        }
    }
    let mut values = columns(&KEY, &whole.iter().collect::<Vec<_>>());
    values.push(Column::ints(&whole, |_| Some(now.micros())));
    values.push(Column::ints(&whole, |_| Some(until.micros())));
    tx.batch(&PROLONG, &values).await?;
    remove(tx, &split).await?;
    put_all(tx, &parts).await?;
    Ok(beaten)
}

macro_rules! overdue {
    ($name:literal, $lock:literal) => {
        Sql::new(concat!(
            $name,
            "
     SELECT runs
     FROM run_bundles
     WHERE lease_until <= CAST(?1 AS BIGINT)
       AND lease_until - last_heartbeat <= CAST(?2 AS BIGINT)
     ORDER BY lease_until, first_run
     LIMIT CAST(?3 AS BIGINT)
     ",
            $lock
        ))
    };
}

pub(super) static OVERDUE: Sql = overdue!("/* bundles::overdue */", "");
/// The same, of which no other transaction takes one.
pub(super) static EXPIRED: Sql = overdue!("/* bundles::expired */", "{skip_locked}");

/// Runs in bundles whose lease has passed and was no longer than `longest`, those of longest ago first.
pub(super) async fn overdue(
    tx: &mut Tx<'_>,
    sql: &Sql,
    now: Timestamp,
    longest: i64,
    limit: u32,
) -> Result<Vec<RunId>> {
    let bundles = usize::try_from(limit).unwrap_or(usize::MAX).div_ceil(MOST);
    let params = [now.micros().into(), longest.into(), i64::try_from(bundles).unwrap_or(i64::MAX).into()];
    let mut runs = runs_of(tx, sql, &params).await?;
    runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(runs)
}

static CLAIMED_BY: Sql = Sql::new(
    "/* bundles::claimed_by */
     SELECT runs
     FROM run_bundles
     WHERE task_id = ?1
     ORDER BY first_run",
);

/// The runs of a task that are in bundles.
pub(super) async fn claimed_by(tx: &mut Tx<'_>, task: TaskId) -> Result<Vec<RunId>> {
    runs_of(tx, &CLAIMED_BY, &[task.uuid().into()]).await
}

static OF_CATEGORY: Sql = Sql::new(
    "/* bundles::of_category */
     SELECT runs
     FROM run_bundles
     WHERE category = ?1
     ORDER BY first_run",
);

/// The runs of a category that are in bundles. There are no more of them than workers have permits.
pub(super) async fn of_category(tx: &mut Tx<'_>, category: &str) -> Result<Vec<RunId>> {
    runs_of(tx, &OF_CATEGORY, &[category.into()]).await
}

static CATEGORIES: Sql = Sql::new(
    "/* bundles::categories */
     SELECT DISTINCT category
     FROM run_bundles",
);

/// The categories of which runs are in bundles.
pub(super) async fn categories(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    tx.rows(&CATEGORIES, &[], |row| row.text(0)).await
}

async fn runs_of(tx: &mut Tx<'_>, sql: &Sql, params: &[Param<'_>]) -> Result<Vec<RunId>> {
    let bundles = tx.rows(sql, params, |row| row.bytes(0)).await?;
    Ok(bundles.iter().flat_map(|runs| ids_in(runs)).collect())
}
