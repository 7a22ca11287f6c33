//! Days of one series that follow one another and change alike, as an outage leaves them: written by one statement.
//!
//! This is for SQLite, where starting a statement costs as much as changing a row, and where nobody else can write between the
//! look at the versions and the change. PostgreSQL has the rows of a batch in one statement anyway.

use redrive_core::partition::Change;

use super::row::int;
use crate::db::{Param, Sql, Tx};
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

/// Writes the standing of stretches that are wholly as they were; says of each change whether it was written. Changes are in
/// key order.
pub(super) async fn write_stretches(tx: &mut Tx<'_>, at: &[&Place], changes: &[&Change]) -> Result<Vec<bool>> {
    let mut took = vec![false; changes.len()];
    if !tx.is_alone() {
        return Ok(took);
    }
    let mut from = 0;
    while from < changes.len() {
        let mut to = from + 1;
        while to < changes.len() && follows(at, changes, to) {
            to += 1;
        }
        if to - from >= WORTH && write(tx, &at[from..to], &changes[from..to]).await? {
            took[from..to].fill(true);
        }
        from = to;
    }
    Ok(took)
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
