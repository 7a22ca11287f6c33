//! Claims that lie side by side and end together, as a worker's do that claims many runs at once: taken by one statement.
//!
//! This is for SQLite, where starting a statement costs as much as deleting a row, and where nobody else can write between the
//! look at the claims and their end. PostgreSQL has the rows of a batch in one statement anyway.

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::Change;

use crate::db::{Param, Sql, Tx};
use crate::error::Result;

/// From how many claims on a statement of their own is worth it.
const WORTH: usize = 16;
/// The most claims of one stretch. A claim that goes on among them keeps no more than these from being taken together.
const LONGEST: usize = 128;

static HELD: Sql = Sql::new(
    "/* runs::held_between */
     SELECT run_id, task_id
     FROM run_claims
     WHERE workload = ?1
       AND category = ?2
       AND run_id >= ?3
       AND run_id <= ?4
     ORDER BY run_id
     LIMIT ?5",
);
static TAKE: Sql = Sql::new(
    "/* runs::take_stretch */
     DELETE FROM run_claims
     WHERE workload = ?1
       AND category = ?2
       AND run_id >= ?3
       AND run_id <= ?4",
);

/// Takes the claims of stretches that are wholly as their changes expect; says of each change whether its claim was taken. Changes
/// are in the order of their places.
pub(super) async fn take_stretches(tx: &mut Tx<'_>, changes: &[&Change]) -> Result<Vec<bool>> {
    let mut took = Vec::with_capacity(changes.len());
    if !tx.is_alone() {
        return Ok(vec![false; changes.len()]);
    }
    let of_one_category = changes.chunk_by(|one, next| category(one) == category(next));
    for stretch in of_one_category.flat_map(|changes| changes.chunks(LONGEST)) {
        let is_taken = stretch.len() >= WORTH && take(tx, stretch).await?;
        took.resize(took.len() + stretch.len(), is_taken);
    }
    Ok(took)
}

fn category(change: &Change) -> (&'static str, &str) {
    (change.after.workload().as_str(), change.after.work.category())
}

/// Takes a stretch if all of it is held as expected, and no other claim lies in between.
async fn take(tx: &mut Tx<'_>, changes: &[&Change]) -> Result<bool> {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(false) };
    let (workload, category) = category(first);
    let ends = [first, last].map(|change| Param::from(change.after.run_id.uuid()));
    let [from, to] = ends;
    let one_more = i64::try_from(changes.len() + 1).unwrap_or(i64::MAX);
    let place = [workload.into(), category.into(), from, to, one_more.into()];
    let held =
        tx.rows(&HELD, &place, |row| Ok((RunId::from_uuid(row.id(0)?), row.opt_id(1)?.map(TaskId::from_uuid)))).await?;
    let expected = changes.iter().map(|change| (change.after.run_id, change.expect_task));
    if !held.into_iter().eq(expected) {
        return Ok(false);
    }
    tx.execute(&TAKE, &place[..4]).await?;
    Ok(true)
}
