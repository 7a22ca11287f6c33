//! How many runs of some categories may still be started, and what is left when a claim came back empty.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use super::claim::{CATEGORIES, RunClaim};
use crate::db::{Column, Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::overview::BOUND;
use crate::partitions::{Backlog, Queued};

/// How many runs of some categories may run at once, on all machines together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlightLimit {
    pub most: u32,
    /// All categories that share the limit, whichever of them are claimed; none means all of the workload's.
    pub categories: Option<Vec<String>>,
}

impl View {
    /// What is queued of these categories (all of the workload's where none are named), under the limit given, and what of
    /// them is under way.
    pub async fn run_backlog(
        &self,
        workload: Workload,
        categories: Option<Vec<String>>,
        max_in_flight: Option<InFlightLimit>,
    ) -> Result<Backlog> {
        let now = self.inner.now();
        read!(self.read_by_index, "run backlog", |tx, workload, categories, max_in_flight, now| backlog(
            tx,
            *workload,
            Option::as_deref(&categories),
            Option::as_ref(&max_in_flight),
            *now
        ))
    }

    /// How many runs of these categories are under way.
    pub async fn runs_in_flight(&self, workload: Workload, categories: Vec<String>) -> Result<u64> {
        read!(self.read_by_index, "runs in flight", |tx, workload, categories| in_flight(
            tx,
            *workload,
            Some(categories.as_slice())
        ))
    }

    /// The first categories of jobs that have something queued, and those of the jobs that came due longest ago, in their order.
    pub async fn categories_with_work(&self, most: u32) -> Result<Vec<String>> {
        let now = self.inner.now();
        read!(self.read_by_index, "categories with work", |tx, most, now| categories_with_work(tx, *most, *now))
    }

    /// The categories of jobs that have something queued or due, each with how many, counted up to [`BOUND`].
    pub async fn categories_waiting(&self) -> Result<Vec<(String, u64)>> {
        let now = self.inner.now();
        read!(self.read_by_index, "categories waiting", |tx, now| categories_waiting(tx, *now))
    }
}

/// The most that [`View::categories_waiting`] counts of a category.
const COUNTED: i64 = BOUND.cast_signed();

static IN_FLIGHT: Lookup = Lookup::new(
    "/* runs::in_flight */
     SELECT (
             SELECT count(*)
             FROM run_claims
             WHERE workload = @workload
               AND category = @category)
         + (
             SELECT coalesce(sum(length(runs)), 0) / 16
             FROM run_bundles
             WHERE category = @category
               AND @workload = 'process')",
    &[("workload", Kind::Text), ("category", Kind::Text)],
);
static ALL_IN_FLIGHT: Sql = Sql::new(
    "/* runs::all_in_flight */
     SELECT (
             SELECT count(*)
             FROM run_claims
             WHERE workload = ?1)
         + (
             SELECT coalesce(sum(length(runs)), 0) / 16
             FROM run_bundles
             WHERE ?1 = 'process')",
);

async fn in_flight(tx: &mut Tx<'_>, workload: Workload, categories: Option<&[String]>) -> Result<u64> {
    let Some(categories) = categories else {
        let all = tx.row(&ALL_IN_FLIGHT, &[workload.as_str().into()], |row| row.int(0)).await?;
        return Ok(u64::try_from(all.unwrap_or(0)).unwrap_or(0));
    };
    let values = [
        Column::texts(categories, |_| Some(workload.as_str())),
        Column::texts(categories, |category| Some(category.as_str())),
    ];
    Ok(tx.lookup(&IN_FLIGHT, &values, |mut row| row.count::<u64>()).await?.into_iter().map(|(_, count)| count).sum())
}

/// How many runs a claim may start. Where there is a limit, all claims under it, also those of other categories that share it, take turns until they have committed, so that each
/// counts what the others started.
pub(super) async fn room(tx: &mut Tx<'_>, asked: &RunClaim) -> Result<u32> {
    let Some(InFlightLimit { most, categories }) = asked.max_in_flight.clone() else { return Ok(asked.limit) };
    let categories = in_order(categories);
    tx.exclusive(lock_of(asked.workload, categories.as_deref())).await?;
    let running = in_flight(tx, asked.workload, categories.as_deref()).await?;
    let free = u64::from(most).saturating_sub(running);
    Ok(asked.limit.min(u32::try_from(free).unwrap_or(u32::MAX)))
}

/// Has all of these claims wait for their turns at once, always in the same order, so that no two callers wait for each other.
pub(super) async fn take_turns(tx: &mut Tx<'_>, claims: &[RunClaim]) -> Result<()> {
    let lock = |asked: &RunClaim| {
        let limit = asked.max_in_flight.as_ref()?;
        Some(lock_of(asked.workload, in_order(limit.categories.clone()).as_deref()))
    };
    let mut locks: Vec<i64> = claims.iter().filter_map(lock).collect();
    locks.sort_unstable();
    for lock in locks {
        tx.exclusive(lock).await?;
    }
    Ok(())
}

fn in_order(categories: Option<Vec<String>>) -> Option<Vec<String>> {
    categories.map(|mut categories| {
        categories.sort_unstable();
        categories.dedup();
        categories
    })
}

/// The number of the lock under which claims of these categories take turns.
fn lock_of(workload: Workload, categories: Option<&[String]>) -> i64 {
    let names = categories.into_iter().flatten().map(String::as_str);
    lock_number(["redrive runs", workload.as_str()].into_iter().chain(names))
}

/// The number of the lock that these words name. FNV-1a.
pub(super) fn lock_number<'a>(words: impl IntoIterator<Item = &'a str>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for word in words {
        for &byte in word.as_bytes().iter().chain(&[0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    i64::from_le_bytes(hash.to_le_bytes())
}

static ANY_QUEUED: Lookup = Lookup::new(
    "/* runs::any_queued */
     SELECT CAST(1 AS BIGINT)
     WHERE EXISTS (SELECT 1 FROM run_queue WHERE workload = @workload AND category = @category)
        OR EXISTS (
            SELECT 1
            FROM run_waiting
            WHERE state = 'waiting'
              AND workload = @workload
              AND category = @category
              AND due_at <= @now
        )",
    &[("workload", Kind::Text), ("category", Kind::Text), ("now", Kind::Int)],
);
static ANY_OF_ALL_QUEUED: Sql = Sql::new(
    "/* runs::any_of_all_queued */
     SELECT CAST(1 AS BIGINT)
     WHERE EXISTS (SELECT 1 FROM run_queue WHERE workload = ?1)
        OR EXISTS (
            SELECT 1
            FROM run_waiting
            WHERE state = 'waiting'
              AND workload = ?1
              AND due_at <= CAST(?2 AS BIGINT)
        )",
);

async fn is_any_queued(
    tx: &mut Tx<'_>,
    workload: Workload,
    categories: Option<&[String]>,
    now: Timestamp,
) -> Result<bool> {
    let Some(categories) = categories else {
        let params = [workload.as_str().into(), now.micros().into()];
        return Ok(tx.row(&ANY_OF_ALL_QUEUED, &params, |row| row.int(0)).await?.is_some());
    };
    let values = [
        Column::texts(categories, |_| Some(workload.as_str())),
        Column::texts(categories, |category| Some(category.as_str())),
        Column::ints(categories, |_| Some(now.micros())),
    ];
    Ok(!tx.lookup(&ANY_QUEUED, &values, |_| Ok(())).await?.is_empty())
}

async fn backlog(
    tx: &mut Tx<'_>,
    workload: Workload,
    categories: Option<&[String]>,
    max_in_flight: Option<&InFlightLimit>,
    now: Timestamp,
) -> Result<Backlog> {
    let own = in_flight(tx, workload, categories).await?;
    let (has_room, sharing) = match max_in_flight {
        None => (true, own),
        Some(limit) => {
            let sharing = in_flight(tx, workload, limit.categories.as_deref()).await?;
            (sharing < u64::from(limit.most), sharing)
        }
    };
    let queued = match is_any_queued(tx, workload, categories, now).await? {
        true if has_room => Queued::Claimable,
        true if sharing > 0 => Queued::HeldBack,
        // A limit of 0 withholds it: nothing that ends makes room.
        true | false => Queued::Nothing,
    };
    Ok(Backlog { queued, in_flight: own })
}

static COUNT_QUEUED: Lookup = Lookup::new(
    "/* runs::count_queued */
     SELECT count(*)
     FROM (SELECT 1 FROM run_queue WHERE workload = 'process' AND category = @category LIMIT @most) AS counted",
    &[("category", Kind::Text), ("most", Kind::Int)],
);

/// How many due runs are looked at. Any worker that claims jobs queues them, so that they pile up only where there is none.
const DUE_LOOKED_AT: i64 = 10_000;

static COUNT_DUE: Sql = Sql::new(
    "/* runs::count_due */
     SELECT category, count(*)
     FROM (
         SELECT category
         FROM run_waiting
         WHERE state = 'waiting'
           AND workload = ?1
           AND due_at <= CAST(?2 AS BIGINT)
         ORDER BY due_at
         LIMIT CAST(?3 AS BIGINT)
     ) AS due
     GROUP BY category",
);

/// The first categories of jobs that have something queued.
async fn queued(tx: &mut Tx<'_>, most: i64) -> Result<Vec<String>> {
    tx.rows(&CATEGORIES, &[Workload::Process.as_str().into(), most.into()], |row| row.text(0)).await
}

async fn categories_with_work(tx: &mut Tx<'_>, most: u32, now: Timestamp) -> Result<Vec<String>> {
    let queued = queued(tx, most.into()).await?;
    let params = [Workload::Process.as_str().into(), now.micros().into(), DUE_LOOKED_AT.into()];
    let due = tx.rows(&COUNT_DUE, &params, |row| row.text(0)).await?;
    Ok(queued.into_iter().chain(due).collect::<BTreeSet<_>>().into_iter().collect())
}

async fn categories_waiting(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<(String, u64)>> {
    let categories = queued(tx, i64::MAX).await?;
    let values =
        [Column::texts(&categories, |category| Some(category.as_str())), Column::ints(&categories, |_| Some(COUNTED))];
    let counts = tx.lookup(&COUNT_QUEUED, &values, |mut row| row.count::<u64>()).await?;
    let mut waiting: BTreeMap<String, u64> = BTreeMap::new();
    for (nth, count) in counts {
        waiting.insert(categories[nth].clone(), count);
    }
    let params = [Workload::Process.as_str().into(), now.micros().into(), DUE_LOOKED_AT.into()];
    for (category, due) in tx.rows(&COUNT_DUE, &params, |row| Ok((row.text(0)?, row.int(1)?))).await? {
        *waiting.entry(category).or_default() += u64::try_from(due).unwrap_or(0);
    }
    let counted = |(category, count): (String, u64)| (category, count.min(COUNTED.unsigned_abs()));
    Ok(waiting.into_iter().map(counted).collect())
}
