//! Episodes of failure groups as they are kept, and the bounded counts by which they turn.
//!
//! Verdicts do not count here: workers of a source that fails would wait for each other at one row. Whoever follows the
//! episodes counts ranges of the groups' indexes on a reader, and a short transaction writes what turned, each row under the
//! guard of what was seen, together with its notifications. So two followers tell of a turn once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::episode::Episode;
use redrive_core::fingerprint::GroupId;
use redrive_core::notice::Notice;
use redrive_core::time::Timestamp;

use super::outbox;
use crate::db::{Column, Kind, Lookup, Param, Sql, Tx};
use crate::error::{Error, Result};
use crate::groups;
use crate::handles::{ControlStore, View, read, transact};
use crate::overview::BOUND;
use crate::{partitions, runs};

/// An episode that is not over, and whose failures it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEpisode {
    pub episode: Episode,
    pub sources: BTreeSet<String>,
    pub categories: BTreeSet<String>,
}

/// An episode before and after people are told; none where it was not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeStep {
    pub before: Option<Episode>,
    pub after: Option<OpenEpisode>,
    pub notices: Vec<Notice>,
}

/// Which groups have members that are being tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetriedGroups {
    These(BTreeSet<GroupId>),
    /// So much is being tried again that it was not looked at one by one.
    Many,
}

impl RetriedGroups {
    pub fn may_have(&self, group: GroupId) -> bool {
        match self {
            Self::These(groups) => groups.contains(&group),
            Self::Many => true,
        }
    }
}

impl View {
    /// The episodes that are not over.
    pub async fn episodes(&self) -> Result<Vec<OpenEpisode>> {
        read!(self, "episodes", |tx| all(tx))
    }

    /// How many partitions and runs of each group are failed now, each counted to [`BOUND`]; of the groups that are
    /// asked for, and of those that a bounded look at the others finds.
    pub async fn failed_by_group(&self, asked: Vec<GroupId>) -> Result<BTreeMap<GroupId, u64>> {
        read!(self.read_by_index, "failed by group", |tx, asked| failed(tx, &asked))
    }

    /// Which groups have members that wait for a further attempt, or are at it.
    pub async fn retried_groups(&self) -> Result<RetriedGroups> {
        read!(self.read_by_index, "retried groups", |tx| retried(tx))
    }
}

static ALL: Sql = Sql::new(
    "/* episodes::all */
     SELECT group_id, opened_at, opened_with, grown_at, exhausted_at, sources, categories
     FROM episodes
     ORDER BY group_id",
);

async fn all(tx: &mut Tx<'_>) -> Result<Vec<OpenEpisode>> {
    tx.rows(&ALL, &[], |row| {
        let mut row = row.cursor();
        let episode = Episode {
            group: groups::read_id(row.int()?)?,
            opened_at: row.time()?,
            opened_with: row.count()?,
            grown_at: row.opt_time()?,
            exhausted_at: row.opt_time()?,
        };
        Ok(OpenEpisode { episode, sources: list(row.str()?)?, categories: list(row.str()?)? })
    })
    .await
}

fn list(text: &str) -> Result<BTreeSet<String>> {
    serde_json::from_str(text).map_err(|error| Error::row("episodes", error))
}

fn text(list: &BTreeSet<String>) -> Result<String> {
    serde_json::to_string(list).map_err(|error| Error::row("episodes", error))
}

/// How many rows of a table have failed for one cause, counted to the bound.
macro_rules! failures {
    ($table:literal, $which:literal) => {
        Lookup::new(
            concat!(
                "/* episodes::",
                $table,
                " */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM ",
                $table,
                "
         WHERE ",
                $which,
                " AND error_group IS NOT NULL AND error_group = @group_id
         LIMIT 10001) counted"
            ),
            &[("group_id", Kind::Int)],
        )
    };
}
static FAILURES: [Lookup; 3] = [
    failures!("partitions", "status = 'failed'"),
    failures!("run_waiting", "workload <> 'extract'"),
    failures!("run_ends", "workload <> 'extract'"),
];

async fn failed(tx: &mut Tx<'_>, asked: &[GroupId]) -> Result<BTreeMap<GroupId, u64>> {
    let mut ids: BTreeSet<GroupId> = asked.iter().copied().collect();
    ids.extend(partitions::failed_groups(tx).await?);
    ids.extend(runs::failed_groups(tx).await?);
    let ids: Vec<GroupId> = ids.into_iter().collect();
    let columns = [Column::ints(&ids, |group| Some(group.number()))];
    let mut counts: BTreeMap<GroupId, u64> = BTreeMap::new();
    for sql in &FAILURES {
        for (nth, count) in tx.lookup(sql, &columns, |mut row| row.count::<u64>()).await? {
            let total = counts.entry(ids[nth]).or_default();
            *total = (*total + count).min(BOUND);
        }
    }
    Ok(counts)
}

/// Partitions whose last attempt failed and that wait in the lane of retries, or are at it.
static RETRIED_PARTITIONS: Sql = Sql::new(
    "/* episodes::retried_partitions */
     SELECT p.error_group, c.counted
     FROM (
         SELECT series_id, period, 1 AS counted
         FROM (
             SELECT series_id, period
             FROM partition_control
             WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL AND lane = 'retry'
             LIMIT 10001) waiting
         UNION ALL
         SELECT series_id, period, 0
         FROM (
             SELECT series_id, period
             FROM partition_control
             WHERE active_run_id IS NOT NULL
             LIMIT 10001) active) c
     LEFT JOIN partitions p ON p.series_id = c.series_id AND p.period = c.period AND p.status <> 'success'",
);
/// Runs that failed before and are queued or running.
static RETRIED_RUNS: Sql = Sql::new(
    "/* episodes::retried_runs */
     SELECT DISTINCT f.error_group
     FROM (
         SELECT run_id
         FROM (SELECT run_id, error_class FROM run_queue WHERE workload <> 'extract' LIMIT 10001) queued
         WHERE error_class IS NOT NULL
         UNION ALL
         SELECT run_id
         FROM (SELECT run_id, error_class FROM run_claims WHERE workload <> 'extract' LIMIT 10001) claimed
         WHERE error_class IS NOT NULL) r
     JOIN run_failures f ON f.run_id = r.run_id
     WHERE f.error_group IS NOT NULL",
);

async fn retried(tx: &mut Tx<'_>) -> Result<RetriedGroups> {
    let rows = tx.rows(&RETRIED_PARTITIONS, &[], |row| Ok((row.opt_int(0)?, row.int(1)?))).await?;
    let waiting = rows.iter().filter(|(_, counted)| *counted == 1).count();
    if u64::try_from(waiting).unwrap_or(u64::MAX) >= BOUND {
        return Ok(RetriedGroups::Many);
    }
    let mut numbers: BTreeSet<i64> = rows.into_iter().filter_map(|(group, _)| group).collect();
    numbers.extend(tx.rows(&RETRIED_RUNS, &[], |row| row.int(0)).await?);
    Ok(RetriedGroups::These(numbers.into_iter().map(groups::read_id).collect::<Result<_>>()?))
}

impl ControlStore {
    /// Writes what turned, with its notifications; says of each step whether the episode was still as it was seen.
    pub async fn turn_episodes(&self, steps: Vec<EpisodeStep>) -> Result<Vec<bool>> {
        let now = self.inner.now();
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "turn episodes", |tx, steps, inner| {
            let mut took = Vec::with_capacity(steps.len());
            for step in steps.iter() {
                let took_it = write(tx, step).await?;
                for notice in step.notices.iter().filter(|_| took_it) {
                    outbox::add(tx, &inner.ids, notice, now).await?;
                }
                took.push(took_it);
            }
            Ok(took)
        })
    }
}

static OPEN: Sql = Sql::new(
    "/* episodes::open */
     INSERT INTO episodes (group_id, opened_at, opened_with, grown_at, exhausted_at, sources, categories)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT DO NOTHING",
);
static TURN: Sql = Sql::new(
    "/* episodes::turn */
     UPDATE episodes
     SET grown_at = CAST(?5 AS BIGINT), exhausted_at = CAST(?6 AS BIGINT), sources = ?7, categories = ?8
     WHERE group_id = ?1 AND opened_at = ?2
       AND coalesce(grown_at, 0) = CAST(?3 AS BIGINT) AND coalesce(exhausted_at, 0) = CAST(?4 AS BIGINT)",
);
static CLOSE: Sql = Sql::new(
    "/* episodes::close */
     DELETE FROM episodes
     WHERE group_id = ?1 AND opened_at = ?2
       AND coalesce(grown_at, 0) = CAST(?3 AS BIGINT) AND coalesce(exhausted_at, 0) = CAST(?4 AS BIGINT)",
);

fn moment(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::micros)
}

/// The guard: the episode as it was seen.
fn seen(episode: &Episode) -> [Param<'static>; 4] {
    [
        episode.group.number().into(),
        episode.opened_at.micros().into(),
        moment(episode.grown_at).unwrap_or(0).into(),
        moment(episode.exhausted_at).unwrap_or(0).into(),
    ]
}

async fn write(tx: &mut Tx<'_>, step: &EpisodeStep) -> Result<bool> {
    let changed = match (&step.before, &step.after) {
        (None, None) => 0,
        (None, Some(OpenEpisode { episode, sources, categories })) => {
            let (sources, categories) = (text(sources)?, text(categories)?);
            let params: [Param<'_>; 7] = [
                episode.group.number().into(),
                episode.opened_at.micros().into(),
                i64::try_from(episode.opened_with).unwrap_or(i64::MAX).into(),
                moment(episode.grown_at).into(),
                moment(episode.exhausted_at).into(),
                sources.as_str().into(),
                categories.as_str().into(),
            ];
            tx.execute(&OPEN, &params).await?
        }
        (Some(before), Some(OpenEpisode { episode, sources, categories })) => {
            let (sources, categories) = (text(sources)?, text(categories)?);
            let [group, opened, grown, exhausted] = seen(before);
            let after = [moment(episode.grown_at).into(), moment(episode.exhausted_at).into()];
            let params = [
                group,
                opened,
                grown,
                exhausted,
                after[0],
                after[1],
                sources.as_str().into(),
                categories.as_str().into(),
            ];
            tx.execute(&TURN, &params).await?
        }
        (Some(before), None) => tx.execute(&CLOSE, &seen(before)).await?,
    };
    Ok(changed > 0)
}
