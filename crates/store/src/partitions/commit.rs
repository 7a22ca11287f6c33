//! Committing what `core::partition::apply` decided: each change under its version's guard, with its control row.

use std::sync::Arc;

use redrive_core::partition::{self, Change, ControlEvent, Event, Partition};
use redrive_core::refusal::Refused;
use redrive_core::run::Workload;

use super::read::get_many;
use super::row::{
    CONTROL, FULL_STANDING, KEY, KEY_NAMES, NEW_CONTROL_NAMES, NEW_CONTROL_PLACE, OUTCOME, STANDING, WANTED,
    WANTED_NAMES, int,
};
use super::stretch;
use crate::audit::{self, NewChange, Operation, PlacedSubject, WrittenChange};
use crate::db::columns::{Field, Named, columns, join, named};
use crate::db::{Batch, Effect, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, transact};
use crate::series::{self, Place};

/// What became of one partition of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every outcome is the large one")]
pub enum Outcome {
    Changed {
        before: Partition,
        after: Partition,
    },
    Refused(Refused),
    /// Another caller changed it first; this is how it is now.
    Overtaken(Box<Partition>),
}

/// Decided changes that are not yet written, with their audit rows.
#[derive(Debug, Default)]
pub struct Decided(Vec<Result<DecidedChange, Refused>>);

#[derive(Debug, Clone)]
struct DecidedChange {
    before: Partition,
    change: Change,
    written: WrittenChange,
}

impl ControlStore {
    /// Puts an operation's events to partitions as they were read, in one transaction with its audit rows. Each is
    /// decided and written for itself: one that is refused or was overtaken stops no other.
    pub async fn commit(
        &self,
        operation: &Operation,
        items: Vec<(Partition, ControlEvent<'_>)>,
    ) -> Result<Vec<Outcome>> {
        Ok(self.write(operation, self.decide(items)).await?.outcomes().collect())
    }

    /// Decides about partitions as they were read. Nothing is written, so that it can be done while others are.
    pub fn decide<'e>(&self, items: impl IntoIterator<Item = (Partition, ControlEvent<'e>)>) -> Decided {
        let now = self.inner.now();
        let decide = |(before, event): (Partition, ControlEvent<'e>)| {
            tracing::trace!(key = %before.state.key, "applied");
            let change = partition::apply(&before, Event::Control(event), now)?;
            let written = WrittenChange::of_partition(Some(&before), &change.after);
            Ok(DecidedChange { before, change, written })
        };
        Decided(items.into_iter().map(decide).collect())
    }

    /// Writes what was decided, where it still holds.
    pub async fn write(&self, operation: &Operation, Decided(decided): Decided) -> Result<Committed> {
        if decided.iter().all(Result::is_err) {
            return Ok(Committed { decided, written: vec![] });
        }
        let decided = Arc::new(decided);
        let (operation, inside) = (operation.clone(), Arc::clone(&decided));
        let written = transact!(self.inner, "commit changes", |tx, operation, inside| {
            let decided: Vec<&DecidedChange> = inside.iter().flatten().collect();
            let written = write_decided(tx, &operation, &decided).await?;
            tx.wake_for(Workload::Extract);
            Ok(written)
        })?;
        Ok(Committed { decided: Arc::unwrap_or_clone(decided), written })
    }
}

/// Changes that were decided, and how the write of each ended.
#[derive(Debug, Default)]
pub struct Committed {
    decided: Vec<Result<DecidedChange, Refused>>,
    /// Of those that were not refused.
    written: Vec<Written>,
}

impl Committed {
    /// What became of each. It takes as long as some rows of the next chunk, which need not wait for it.
    pub fn outcomes(self) -> impl Iterator<Item = Outcome> {
        let mut written = self.written.into_iter();
        self.decided.into_iter().map(move |decided| outcome(decided, &mut written))
    }
}

/// How the write of a decided change ended.
#[derive(Debug)]
enum Written {
    Changed,
    /// Another caller was first; the partition as it is now, if it is still there.
    Overtaken(Option<Box<Partition>>),
}

fn outcome(decided: Result<DecidedChange, Refused>, written: &mut impl Iterator<Item = Written>) -> Outcome {
    let DecidedChange { before, change, .. } = match decided {
        Ok(decided) => decided,
        Err(refused) => return Outcome::Refused(refused),
    };
    match written.next() {
        Some(Written::Changed) => Outcome::Changed { before, after: change.after },
        Some(Written::Overtaken(Some(now))) => Outcome::Overtaken(now),
        Some(Written::Overtaken(None)) | None => Outcome::Overtaken(Box::new(before)),
    }
}

async fn write_decided(tx: &mut Tx<'_>, operation: &Operation, decided: &[&DecidedChange]) -> Result<Vec<Written>> {
    let changes: Vec<&Change> = decided.iter().map(|decided| &decided.change).collect();
    let plain = |decided: &&DecidedChange| {
        let (before, after) = (&decided.before, &decided.change.after);
        before.state.error_message == after.state.error_message && before.control.granted == after.control.granted
    };
    // Only a terminal mark changes the message, and only a grant what is spent. One statement for all: two would lock rows in
    // two orders.
    let placed = match decided.iter().all(plain) {
        true => write_fields(tx, Update::Standing, &changes).await?,
        false => write_fields(tx, Update::FullStanding, &changes).await?,
    };
    let made = decided.iter().zip(&placed).filter(|(_, placed)| placed.took);
    let made: Vec<NewChange<'_>> = made
        .map(|(decided, placed)| NewChange {
            subject: PlacedSubject::Partition(&decided.change.after.state.key, placed.place),
            written: &decided.written,
        })
        .collect();
    let overtaken = changes.iter().zip(&placed).filter(|(_, placed)| !placed.took);
    let overtaken: Vec<_> = overtaken.map(|(change, _)| change.after.state.key.clone()).collect();
    let mut now = get_many(tx, &overtaken).await?.into_iter();
    audit::record(tx, operation, &made).await?;
    let written = |placed: Placed| match placed.took {
        true => Written::Changed,
        false => Written::Overtaken(now.next().flatten().map(Box::new)),
    };
    Ok(placed.into_iter().map(written).collect())
}

const GUARD: [Field<Change>; 1] = [Field::int("expect_version", |change| int(change.expect_version).into())];
const GUARDED_KEY: [Named; 3] = join(KEY_NAMES, named(&GUARD));
const OUTCOME_NAMES: [Named; 13] = join(GUARDED_KEY, named(&OUTCOME));
const STANDING_NAMES: [Named; 6] = join(GUARDED_KEY, named(&STANDING));
const FULL_STANDING_NAMES: [Named; 8] = join(GUARDED_KEY, named(&FULL_STANDING));

/// Changes partitions that are still as they were. Statements differ in what they set.
macro_rules! update {
    ($name:literal, $columns:expr) => {
        Batch::new(
            concat!(
                "/* partitions::",
                $name,
                " */
     UPDATE partitions
     SET {set}, version = @expect_version + 1
     {from}
     WHERE series_id = @series_id AND period = @period AND version = @expect_version"
            ),
            $columns,
            Effect::Row,
        )
    };
}

static UPDATE: Batch = update!("write", &OUTCOME_NAMES);
static UPDATE_STANDING: Batch = update!("write_standing", &STANDING_NAMES);
static UPDATE_FULL_STANDING: Batch = update!("write_full_standing", &FULL_STANDING_NAMES);

/// Writes the data plane's changes whose partition is still as it was; says of each whether it was.
pub(crate) async fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    let placed = write_fields(tx, Update::Outcome, &changes.iter().collect::<Vec<_>>()).await?;
    Ok(placed.into_iter().map(|placed| placed.took).collect())
}

/// Where a changed partition lies, and whether its change took effect.
#[derive(Clone, Copy)]
struct Placed {
    place: Place,
    took: bool,
}

/// What a change may set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    Outcome,
    Standing,
    FullStanding,
}

impl Update {
    fn statement(self) -> (&'static Batch, &'static [Field<Partition>]) {
        match self {
            Self::Outcome => (&UPDATE, &OUTCOME),
            Self::Standing => (&UPDATE_STANDING, &STANDING),
            Self::FullStanding => (&UPDATE_FULL_STANDING, &FULL_STANDING),
        }
    }
}

/// Writes changes whose partition is still as it was.
async fn write_fields(tx: &mut Tx<'_>, update: Update, changes: &[&Change]) -> Result<Vec<Placed>> {
    let order = KeyOrder::of(changes);
    let changes = order.sorted(changes);
    let places = series::find(tx, changes.iter().map(|change| &change.after.state.key)).await?;
    let at: Vec<&Place> = places.iter().collect();
    let took = match update {
        Update::Standing if !tx.is_alone() => stretch::write_together(tx, &at, &changes).await?,
        Update::Standing => {
            let took = stretch::write_one_by_one(tx, &at, &changes).await?;
            write_rest(tx, update, &at, &changes, took).await?
        }
        Update::Outcome | Update::FullStanding => {
            write_rest(tx, update, &at, &changes, vec![false; changes.len()]).await?
        }
    };
    write_control(tx, &at, &changes, &took).await?;
    let placed = places.into_iter().zip(took).map(|(place, took)| Placed { place, took });
    Ok(order.restore(placed.collect()))
}

/// Writes the changes that are not written yet row by row; says of each change whether it is written then.
async fn write_rest(
    tx: &mut Tx<'_>,
    update: Update,
    at: &[&Place],
    changes: &[&Change],
    mut took: Vec<bool>,
) -> Result<Vec<bool>> {
    let (statement, fields) = update.statement();
    let rest: Vec<usize> = (0..changes.len()).filter(|&nth| !took[nth]).collect();
    let at: Vec<&Place> = rest.iter().map(|&nth| at[nth]).collect();
    let changes: Vec<&Change> = rest.iter().map(|&nth| changes[nth]).collect();
    let after: Vec<&Partition> = changes.iter().map(|change| &change.after).collect();
    let mut values = columns(&KEY, &at);
    values.extend(columns(&GUARD, &changes));
    values.extend(columns(fields, &after));
    for (nth, each) in rest.into_iter().zip(tx.batch(statement, &values).await?) {
        took[nth] = each;
    }
    Ok(took)
}

/// Rows are written in key order, whatever order they came in: two transactions that lock the same rows then meet at the
/// first of them, and neither waits for the other in a circle.
enum KeyOrder {
    /// They came in key order.
    Same,
    /// Where each of them stood when it came.
    Sorted(Vec<usize>),
}

impl KeyOrder {
    fn of(changes: &[&Change]) -> Self {
        if changes.is_sorted_by(|a, b| a.after.state.key <= b.after.state.key) {
            return Self::Same;
        }
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by(|&a, &b| changes[a].after.state.key.cmp(&changes[b].after.state.key));
        Self::Sorted(order)
    }

    fn sorted<'c>(&self, changes: &[&'c Change]) -> Vec<&'c Change> {
        match self {
            Self::Same => changes.to_vec(),
            Self::Sorted(order) => order.iter().map(|&nth| changes[nth]).collect(),
        }
    }

    /// Answers in the order of the questions.
    fn restore(&self, sorted: Vec<Placed>) -> Vec<Placed> {
        let Self::Sorted(order) = self else { return sorted };
        let mut restored = sorted.clone();
        for (&nth, &answer) in order.iter().zip(&sorted) {
            restored[nth] = answer;
        }
        restored
    }
}

/// Keeps or forgets the control rows of the changes that took effect.
async fn write_control(tx: &mut Tx<'_>, at: &[&Place], changes: &[&Change], took: &[bool]) -> Result<()> {
    let (mut new, mut kept, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    for ((&place, change), _) in at.iter().zip(changes).zip(took).filter(|(_, took)| **took) {
        match (change.had_control, change.after.control.is_empty()) {
            (false, false) => new.push((place, &change.after)),
            (true, false) => kept.push((place, &change.after)),
            (true, true) => forgotten.push(place),
            (false, true) => {}
        }
    }
    put_new_control(tx, &new).await?;
    put_control(tx, &KEEP_CONTROL, (&KEY, &CONTROL), &kept).await?;
    tx.batch(&FORGET_CONTROL, &columns(&KEY, &forgotten)).await.map(drop)
}

/// For partitions that had no control row: the version's guard says so.
static NEW_CONTROL: Batch = Batch::new(
    "/* partitions::new_control */
     INSERT INTO partition_control ({columns})
     {values}",
    &NEW_CONTROL_NAMES,
    Effect::All,
);
const CONTROL_NAMES: [Named; 17] = join(KEY_NAMES, named(&CONTROL));
static KEEP_CONTROL: Batch = Batch::new(
    "/* partitions::keep_control */
     UPDATE partition_control
     SET {set}
     {from}
     WHERE series_id = @series_id AND period = @period",
    &CONTROL_NAMES,
    Effect::All,
);
static FORGET_CONTROL: Batch = Batch::new(
    "/* partitions::forget_control */
     DELETE FROM partition_control
     {using}
     WHERE series_id = @series_id AND period = @period",
    &KEY_NAMES,
    Effect::All,
);

/// The same for what is wanted and nothing else, as nearly every new row is.
static NEW_WANTED: Batch = Batch::new(
    "/* partitions::new_wanted */
     INSERT INTO partition_control ({columns})
     {values}",
    &WANTED_NAMES,
    Effect::All,
);

/// Makes control rows for partitions that have none.
pub(super) async fn put_new_control(tx: &mut Tx<'_>, rows: &[(&Place, &Partition)]) -> Result<()> {
    let (wanted, others): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, partition)| partition.control.is_only_wanted());
    put_control(tx, &NEW_WANTED, (&NEW_CONTROL_PLACE, &WANTED), &wanted).await?;
    put_control(tx, &NEW_CONTROL, (&NEW_CONTROL_PLACE, &CONTROL), &others).await
}

async fn put_control(
    tx: &mut Tx<'_>,
    sql: &Batch,
    (place, control): (&[Field<Place>], &[Field<Partition>]),
    rows: &[(&Place, &Partition)],
) -> Result<()> {
    let (at, partitions): (Vec<&Place>, Vec<&Partition>) = rows.iter().copied().unzip();
    let mut values = columns(place, &at);
    values.extend(columns(control, &partitions));
    tx.batch(sql, &values).await.map(drop)
}
