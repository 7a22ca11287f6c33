//! Moving runs between the tables that say where they stand.
//!
//! A run has one row in one of them. A change first takes that row away, under the guard of what the change expects: only one
//! caller can take it. Then it puts a row where the run stands now. Rows are taken in the order of their runs, and bundles
//! before rows of `run_claims`, so that no two transactions wait for each other.

use redrive_core::fingerprint;
use redrive_core::run::{Change, Run, State};
use redrive_core::time::Timestamp;

use super::bundle;
use super::row::{PLACE, PLACE_NAMES, STANDING_NAMES, standing_columns};
use crate::db::columns::{Field, Named, columns, join, named};
use crate::db::{Batch, Effect, Tx};
use crate::error::{Error, Result};

/// The group of what is failed now. What is queued or runs is being tried again, and has none.
const ERROR_GROUP: Field<Run> =
    Field::int("error_group", |run| fingerprint::of_run(run).map(|found| found.group.number()).into());

/// The lease of a claim, also of one that was cancelled.
const LEASE_UNTIL: Field<Run> = Field::int("lease_until", |run| run.lease_until.map(Timestamp::micros).into());

const HOLD_NAMES: [Named; 17] = join(STANDING_NAMES, named(&[LEASE_UNTIL]));

const WAITING: [Field<Run>; 4] = [
    ERROR_GROUP,
    Field::text("state", |run| run.state.as_str().into()),
    Field::int("due_at", |run| run.due_at().map(Timestamp::micros).into()),
    LEASE_UNTIL,
];
const WAITING_NAMES: [Named; 20] = join(STANDING_NAMES, named(&WAITING));

const END: [Field<Run>; 6] = [
    ERROR_GROUP,
    Field::text("state", |run| run.state.as_str().into()),
    Field::int("completed_at", |run| run.completed_at.map(Timestamp::micros).into()),
    Field::text("ended_by", |run| run.ended_by.map(|by| by.as_str()).into()),
    Field::text("verdict", |run| run.verdict.map(|verdict| verdict.as_str()).into()),
    LEASE_UNTIL,
];
const END_NAMES: [Named; 22] = join(STANDING_NAMES, named(&END));

static WAIT: Batch = Batch::new(
    "/* runs::wait */
     INSERT INTO run_waiting ({columns})
     {values}",
    &WAITING_NAMES,
    Effect::All,
);

pub(crate) static QUEUE: Batch = Batch::new(
    "/* runs::queue */
     INSERT INTO run_queue ({columns})
     {values}",
    &STANDING_NAMES,
    Effect::All,
);

pub(crate) static FINISH: Batch = Batch::new(
    "/* runs::finish */
     INSERT INTO run_ends ({columns})
     {values}",
    &END_NAMES,
    Effect::All,
);

static HOLD: Batch = Batch::new(
    "/* runs::hold */
     INSERT INTO run_claims ({columns})
     {values}",
    &HOLD_NAMES,
    Effect::All,
);

/// Says of runs that a claim has just taken that they run.
pub(super) async fn hold(tx: &mut Tx<'_>, runs: &[&Run]) -> Result<()> {
    let mut values = standing_columns(runs);
    values.extend(columns(&[LEASE_UNTIL], runs));
    tx.batch(&HOLD, &values).await.map(drop)
}

/// Puts runs where they stand. Those that run are put by their claim alone.
pub(super) async fn put(tx: &mut Tx<'_>, runs: &[&Run]) -> Result<()> {
    let (mut waiting, mut queued, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for &run in runs {
        match run.state {
            State::Storing | State::Waiting => waiting.push(run),
            State::Queued => queued.push(run),
            State::Done | State::Dead => ended.push(run),
            State::Running => {
                return Err(Error::Statement { name: "put runs", why: "only a claim starts a run".to_owned() });
            }
        }
    }
    for (statement, fields, runs) in
        [(&WAIT, &WAITING[..], waiting), (&QUEUE, &[][..], queued), (&FINISH, &END[..], ended)]
    {
        let mut values = standing_columns(&runs);
        values.extend(columns(fields, &runs));
        tx.batch(statement, &values).await?;
    }
    Ok(())
}

/// What must still be so of a run that does not run.
const AS_SEEN: [Field<Change>; 2] = [
    Field::text("expect_state", |change| change.expect_state.as_str().into()),
    Field::int("expect_version", |change| i64::try_from(change.expect_version).unwrap_or(i64::MAX).into()),
];
/// What must still be so of a run that runs. Every claim has a new task, so that the version is needless.
const HELD: [Field<Change>; 1] = [Field::id("expect_task", |change| change.expect_task.map(|task| task.uuid()).into())];
const AS_SEEN_NAMES: [Named; 5] = join(PLACE_NAMES, named(&AS_SEEN));
const HELD_NAMES: [Named; 4] = join(PLACE_NAMES, named(&HELD));

static TAKE_WAITING: Batch = Batch::new(
    "/* runs::take_waiting */
     DELETE FROM run_waiting
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND state = @expect_state
       AND version = @expect_version",
    &AS_SEEN_NAMES,
    Effect::Row,
);
static TAKE_QUEUED: Batch = Batch::new(
    "/* runs::take_queued */
     DELETE FROM run_queue
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND @expect_state = 'queued'
       AND version = @expect_version",
    &AS_SEEN_NAMES,
    Effect::Row,
);
static TAKE_ENDED: Batch = Batch::new(
    "/* runs::take_ended */
     DELETE FROM run_ends
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND state = @expect_state
       AND version = @expect_version",
    &AS_SEEN_NAMES,
    Effect::Row,
);
static TAKE_CLAIM: Batch = Batch::new(
    "/* runs::take_claim */
     DELETE FROM run_claims
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND task_id = @expect_task",
    &HELD_NAMES,
    Effect::Row,
);

/// A table that says where runs stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Waiting,
    Queue,
    Claims,
    Ends,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [Self::Waiting, Self::Queue, Self::Claims, Self::Ends];

    fn of(state: State) -> Self {
        match state {
            State::Storing | State::Waiting => Self::Waiting,
            State::Queued => Self::Queue,
            State::Running => Self::Claims,
            State::Done | State::Dead => Self::Ends,
        }
    }

    /// The states of the runs in it.
    pub(super) fn states(self) -> &'static [State] {
        match self {
            Self::Waiting => &[State::Storing, State::Waiting],
            Self::Queue => &[State::Queued],
            Self::Claims => &[State::Running],
            Self::Ends => &[State::Done, State::Dead],
        }
    }

    /// Whether its rows carry the group of a failure.
    pub(super) fn has_groups(self) -> bool {
        match self {
            Self::Waiting | Self::Ends => true,
            Self::Queue | Self::Claims => false,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "run_waiting",
            Self::Queue => "run_queue",
            Self::Claims => "run_claims",
            Self::Ends => "run_ends",
        }
    }

    /// The statement that takes a row of it, and what it guards.
    fn taking(self) -> (&'static Batch, &'static [Field<Change>]) {
        match self {
            Self::Waiting => (&TAKE_WAITING, &AS_SEEN),
            Self::Queue => (&TAKE_QUEUED, &AS_SEEN),
            Self::Claims => (&TAKE_CLAIM, &HELD),
            Self::Ends => (&TAKE_ENDED, &AS_SEEN),
        }
    }
}

/// Takes the rows of runs that are still as their changes expect; says of each whether it was.
pub(super) async fn take(tx: &mut Tx<'_>, changes: &[&Change]) -> Result<Vec<bool>> {
    let mut took = vec![false; changes.len()];
    for table in Table::ALL {
        let mut here: Vec<usize> =
            (0..changes.len()).filter(|&nth| Table::of(changes[nth].expect_state) == table).collect();
        here.sort_by_key(|&nth| changes[nth].after.run_id);
        let mut taking = Taking { changes, here, took: &mut took };
        // Before rows of their own, as heartbeats do.
        if table == Table::Claims {
            taking.take_out_of_bundles(tx).await?;
        }
        taking.take_rows(tx, table).await?;
    }
    Ok(took)
}

/// Changes whose runs' rows are still to be taken.
struct Taking<'a> {
    changes: &'a [&'a Change],
    /// The places of those that are left.
    here: Vec<usize>,
    took: &'a mut [bool],
}

impl Taking<'_> {
    async fn take_rows(&mut self, tx: &mut Tx<'_>, table: Table) -> Result<()> {
        let changes: Vec<&Change> = self.here.iter().map(|&nth| self.changes[nth]).collect();
        let runs: Vec<&Run> = changes.iter().map(|change| &change.after).collect();
        let (statement, guard) = table.taking();
        let mut values = columns(&PLACE, &runs);
        values.extend(columns(guard, &changes));
        let taken = tx.batch(statement, &values).await?;
        self.note(&self.here.clone(), taken);
        Ok(())
    }

    async fn take_out_of_bundles(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let may_be = |nth: &usize| bundle::may_hold(self.changes[*nth]);
        let places: Vec<usize> = self.here.iter().copied().filter(may_be).collect();
        let changes: Vec<&Change> = places.iter().map(|&nth| self.changes[nth]).collect();
        let taken = bundle::take(tx, &changes).await?;
        self.note(&places, taken);
        Ok(())
    }

    fn note(&mut self, places: &[usize], taken: Vec<bool>) {
        for (&nth, taken) in places.iter().zip(taken) {
            self.took[nth] = taken;
        }
        self.here.retain(|&nth| !self.took[nth]);
    }
}
