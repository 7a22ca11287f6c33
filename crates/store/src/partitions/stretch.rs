//! Days of one series that follow one another and change alike, as an outage leaves them: written together.
//!
//! On SQLite starting a statement costs as much as changing a row, and nobody else can write between the look at the versions and the
//! change: a stretch has a statement of its own. PostgreSQL has all stretches of a batch in one statement, which locks rows in key order
//! and steps down its index once for each stretch.

use redrive_core::partition::Change;

use super::row::int;
use crate::db::{Column, Param, Sql, Tx};
use crate::error::Result;
use crate::series::Place;

/// From how many days on a statement of their own is worth it.
const WORTH: usize = 8;

static VERSIONS: Sql = Sql::new(
    "/* partitions::versions */
     SELECT version
     FROM partitions
     WHERE series_id = ?1 AND period >= ?2 AND period <= ?3
     ORDER BY period",
);
static UPDATE: Sql = Sql::new(
    "/* partitions::write_stretch */
     UPDATE OR FAIL partitions
     SET status = ?4, updated_at = ?5, held = ?6, version = version + 1
     WHERE series_id = ?1 AND period >= ?2 AND period <= ?3",
);

static UPDATE_TOGETHER: Sql = Sql::new(
    "/* partitions::write_stretches */
     UPDATE partitions
     SET status = r.status, updated_at = r.updated_at, held = r.held, version = partitions.version + 1
     FROM unnest(?1::bigint[], ?2::bigint[], ?3::bigint[], ?4::bigint[], ?5::text[], ?6::bigint[], ?7::bigint[])
         WITH ORDINALITY AS r (series_id, first, last, version, status, updated_at, held, nth)
     WHERE partitions.series_id = r.series_id
       AND partitions.period >= r.first
       AND partitions.period <= r.last
       AND partitions.version = r.version
     RETURNING r.nth, partitions.period",
);

/// Writes the standing of stretches that are wholly as they were, on SQLite; says of each change whether it was written. Changes are in
/// key order.
pub(super) async fn write_one_by_one(tx: &mut Tx<'_>, at: &[&Place], changes: &[&Change]) -> Result<Vec<bool>> {
    let mut took = vec![false; changes.len()];
    for Stretch { from, to } in stretches(changes.len(), |nth| follows(at, changes, nth)) {
        if to - from >= WORTH && write(tx, &at[from..to], &changes[from..to]).await? {
            took[from..to].fill(true);
        }
    }
    Ok(took)
}

/// Writes the standing of all that is still as it was, on PostgreSQL; says of each change whether it was written. Changes are in key order.
pub(super) async fn write_together(tx: &mut Tx<'_>, at: &[&Place], changes: &[&Change]) -> Result<Vec<bool>> {
    let version = |nth: usize| changes[nth].expect_version;
    let found: Vec<Stretch> =
        stretches(changes.len(), |nth| version(nth - 1) == version(nth) && follows(at, changes, nth)).collect();
    let after = |stretch: &Stretch| &changes[stretch.from].after;
    let columns = [
        Column::ints(&found, |stretch| at[stretch.from].series.map(|series| series.id)),
        Column::ints(&found, |stretch| Some(at[stretch.from].period.number())),
        Column::ints(&found, |stretch| Some(at[stretch.to - 1].period.number())),
        Column::ints(&found, |stretch| Some(int(version(stretch.from)))),
        Column::texts(&found, |stretch| Some(after(stretch).state.status.as_str())),
        Column::ints(&found, |stretch| Some(after(stretch).state.updated_at.micros())),
        Column::ints(&found, |stretch| after(stretch).control.is_held().then_some(1)),
    ];
    let mut took = vec![false; changes.len()];
    for (nth, period) in tx.rows_of_arrays(&UPDATE_TOGETHER, &columns, |mut row| row.int()).await? {
        let days = usize::try_from(period - at[found[nth].from].period.number()).unwrap_or(usize::MAX);
        if let Some(took) = took.get_mut(found[nth].from.saturating_add(days)) {
            *took = true;
        }
    }
    Ok(took)
}

/// Changes from one to before another.
struct Stretch {
    from: usize,
    to: usize,
}

/// Stretches of so many changes, of which each but the first follows the one before it.
fn stretches(count: usize, follows: impl Fn(usize) -> bool) -> impl Iterator<Item = Stretch> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let from = next;
        next = (from + 1..count).find(|nth| !follows(*nth)).unwrap_or(count);
        (from < count).then_some(Stretch { from, to: next })
    })
}

/// Whether a change is of the day after the one before it, and sets the same.
fn follows(at: &[&Place], changes: &[&Change], nth: usize) -> bool {
    let (before, this) = (at[nth - 1], at[nth]);
    let standing =
        |change: &Change| (change.after.state.status, change.after.state.updated_at, change.after.control.is_held());
    before.series == this.series
        && before.period.number() + 1 == this.period.number()
        && standing(changes[nth - 1]) == standing(changes[nth])
}

/// Writes a stretch if all of it is as it was.
async fn write(tx: &mut Tx<'_>, at: &[&Place], changes: &[&Change]) -> Result<bool> {
    let (Some(first), Some(last), Some(change)) = (at.first(), at.last(), changes.first()) else { return Ok(false) };
    let Some(series) = first.series else { return Ok(false) };
    let days: [Param<'_>; 3] = [series.id.into(), first.period.into(), last.period.into()];
    let versions = tx.rows(&VERSIONS, &days, |row| row.int(0)).await?;
    let expected = changes.iter().map(|change| int(change.expect_version));
    if versions.len() != changes.len() || !versions.iter().copied().eq(expected) {
        return Ok(false);
    }
    let after = &change.after;
    let standing = [
        after.state.status.as_str().into(),
        after.state.updated_at.micros().into(),
        after.control.is_held().then_some(1_i64).into(),
    ];
    tx.execute(&UPDATE, &[days.as_slice(), standing.as_slice()].concat()).await?;
    Ok(true)
}
