//! Failure groups of partitions: what is failed now, counted from the groups' own index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::filter::Filter;
use redrive_core::fingerprint::{GroupId, GroupPrefix};
use redrive_core::key::Source;
use redrive_core::partition::Status;
use redrive_core::retry::RetryPolicy;
use redrive_core::time::Timestamp;

use super::Period;
use super::conditions::{Conditions, IN_A_GROUP};
use crate::db::{Sql, Tx};
use crate::error::{Error, Result};
use crate::groups::{self, Description};
use crate::handles::{View, read};
use crate::series;

/// Partitions that are failed now and have one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionGroup {
    pub group: GroupId,
    pub description: Description,
    pub count: u64,
    /// Withheld by a person: marked terminal, or paused.
    pub withheld: u64,
    /// Of the others, those whose policy allows no further attempt.
    pub exhausted: u64,
    pub sources: BTreeSet<String>,
    /// How many each customer of a source has.
    pub customers: BTreeMap<(String, String), u64>,
}

/// From when on a source's policy allows no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Has spent this many attempts.
    pub attempts: u32,
    /// Was wanted first at this time or before.
    pub created: Timestamp,
}

impl AttemptLimits {
    pub fn of(policy: &RetryPolicy, now: Timestamp) -> Self {
        Self {
            attempts: policy.attempt_limit().unwrap_or(u32::MAX),
            created: policy.max_age.map_or(Timestamp::MIN, |age| now.saturating_sub(age)),
        }
    }
}

/// What is to be counted, and by which limits.
#[derive(Debug, Clone)]
pub struct GroupQuery {
    pub filter: Filter,
    /// Of the sources that have limits of their own.
    pub limits: BTreeMap<Source, AttemptLimits>,
    /// Of every other source.
    pub otherwise: AttemptLimits,
    /// Counts no more than this many partitions of the one group that the filter names.
    pub at_most: Option<u32>,
}

impl View {
    /// The failure groups of partitions, the largest first.
    pub async fn partition_groups(&self, query: GroupQuery) -> Result<Vec<PartitionGroup>> {
        read!(self, "partition groups", |tx, query| all(tx, &query))
    }

    /// The largest groups of what is failed now, with how many each has of a source, or of all; each counted to a bound.
    pub async fn largest_groups(&self, source: Option<Source>, at_most: u32) -> Result<Vec<(GroupId, u64)>> {
        read!(self.read_by_index, "largest groups", |tx, source| largest(tx, Option::as_ref(&source), at_most))
    }

    /// The groups whose id begins so; at most two, which is enough to tell whether there is one.
    pub async fn groups_beginning(&self, prefix: GroupPrefix) -> Result<Vec<GroupId>> {
        read!(self, "groups beginning", |tx, prefix| beginning(tx, *prefix))
    }
}

/// How many groups are looked at to find the largest of them.
pub(crate) const GROUPS: u32 = 1000;

/// The first groups of what is failed now, found by steps down the index.
pub(crate) async fn failed_groups(tx: &mut Tx<'_>) -> Result<Vec<GroupId>> {
    groups::distinct(tx, "partitions p", "p.error_group", IN_A_GROUP, GROUPS).await
}

/// The largest groups of what is failed now, each counted to a bound. The groups themselves are found by steps down the index.
async fn largest(tx: &mut Tx<'_>, source: Option<&Source>, at_most: u32) -> Result<Vec<(GroupId, u64)>> {
    let source_no = match source {
        Some(source) => {
            series::source_numbers(tx, std::iter::once(source.as_str())).await?.get(source.as_str()).copied()
        }
        None => None,
    };
    let of_source = match (source, source_no) {
        (None, _) => String::new(),
        (Some(_), Some(source_no)) => format!(" AND p.source_no = {source_no}"),
        (Some(_), None) => return Ok(vec![]),
    };
    let sql = format!(
        "/* groups::largest */
         WITH RECURSIVE known(id) AS (
             SELECT min(p.error_group)
             FROM partitions p
             WHERE {IN_A_GROUP}
             UNION ALL
             SELECT (
                 SELECT min(p.error_group)
                 FROM partitions p
                 WHERE {IN_A_GROUP} AND p.error_group > known.id)
             FROM known
             WHERE known.id IS NOT NULL)
         SELECT listed.id, (
             SELECT count(*)
             FROM (
                 SELECT 1
                 FROM partitions p
                 WHERE {IN_A_GROUP} AND p.error_group = listed.id{of_source}
                 LIMIT {at_most}) counted)
         FROM (SELECT id FROM known WHERE id IS NOT NULL LIMIT {GROUPS}) listed"
    );
    let mut found = tx.built_rows(&sql, &[], |row| Ok((groups::read_id(row.int(0)?)?, row.int(1)?))).await?;
    found.retain(|(_, count)| *count > 0);
    found.sort_by_key(|(group, count)| (std::cmp::Reverse(*count), *group));
    Ok(found.into_iter().map(|(group, count)| (group, u64::try_from(count).unwrap_or(0))).collect())
}

static BEGINNING: Sql = Sql::new(
    "/* groups::beginning */
     SELECT group_id
     FROM failure_groups
     WHERE group_id >= ?1 AND group_id <= ?2
     ORDER BY group_id
     LIMIT 2",
);

async fn beginning(tx: &mut Tx<'_>, prefix: GroupPrefix) -> Result<Vec<GroupId>> {
    let params = [prefix.first.number().into(), prefix.last.number().into()];
    tx.rows(&BEGINNING, &params, |row| groups::read_id(row.int(0)?)).await
}

/// What one series has of one group.
struct Count {
    group: GroupId,
    series_id: i64,
    count: u64,
    withheld: u64,
    exhausted: u64,
}

async fn all(tx: &mut Tx<'_>, query: &GroupQuery) -> Result<Vec<PartitionGroup>> {
    if query.filter.status.is_some_and(|status| status != Status::Failed) {
        return Ok(vec![]);
    }
    let counts = count(tx, query).await?;
    let names = series::names(tx, counts.iter().map(|count| count.series_id)).await?;
    let mut found: BTreeMap<GroupId, PartitionGroup> = BTreeMap::new();
    for (group, description) in groups::describe(tx, counts.iter().map(|count| count.group)).await? {
        let none = PartitionGroup {
            group,
            description,
            count: 0,
            withheld: 0,
            exhausted: 0,
            sources: BTreeSet::new(),
            customers: BTreeMap::new(),
        };
        found.insert(group, none);
    }
    for count in counts {
        let missing = || Error::row("series", format!("{} is missing", count.series_id));
        let (source, customer) = names.get(&count.series_id).ok_or_else(missing)?;
        let Some(group) = found.get_mut(&count.group) else { continue };
        group.count += count.count;
        group.withheld += count.withheld;
        group.exhausted += count.exhausted;
        group.sources.insert(source.clone());
        *group.customers.entry((source.clone(), customer.clone())).or_default() += count.count;
    }
    let class = query.filter.error_class;
    let wanted = found.into_values().filter(|group| class.is_none_or(|class| class == group.description.class));
    let mut groups: Vec<PartitionGroup> = wanted.collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then(a.group.cmp(&b.group)));
    Ok(groups)
}

/// Counts by group and series, which is the order of the index. A limit that differs from source to source is a CASE.
async fn count(tx: &mut Tx<'_>, query: &GroupQuery) -> Result<Vec<Count>> {
    let series = Conditions::of_series(&query.filter);
    let numbers = series::source_numbers(tx, query.limits.keys().map(Source::as_str)).await?;
    let mut all = Conditions::default();
    let limits = query.limits.iter().filter_map(|(source, limits)| Some((*numbers.get(source.as_str())?, limits)));
    let (mut attempts, mut created) = (String::new(), String::new());
    for (source_no, limits) in limits {
        attempts += &format!(" WHEN {source_no} THEN {}", limits.attempts);
        created += &format!(" WHEN {source_no} THEN {}", limits.created.micros());
    }
    let case = |cases: &str, otherwise: i64| match cases {
        "" => otherwise.to_string(),
        cases => format!("CASE p.source_no{cases} ELSE {otherwise} END"),
    };
    let attempts = case(&attempts, i64::from(query.otherwise.attempts));
    let created = case(&created, query.otherwise.created.micros());
    if !series.text.is_empty() {
        all.params = series.params;
        let chosen = series.text;
        all.text = format!(" AND p.series_id IN (SELECT s.series_id FROM series s WHERE true{chosen})");
    }
    if let Some(group) = query.filter.group {
        all.value("p.error_group =", group.number().into());
    }
    if let Some(since) = query.filter.since {
        all.value("p.period >=", Period::of(since).into());
    }
    if let Some(until) = query.filter.until {
        all.value("p.period <=", Period::of(until).into());
    }
    let from = match query.at_most {
        None => format!("FROM partitions p WHERE {IN_A_GROUP}{}", all.text),
        Some(most) => format!(
            "FROM (SELECT p.error_group, p.series_id, p.source_no, p.held, p.spent, p.created_at \
             FROM partitions p WHERE {IN_A_GROUP}{} LIMIT {most}) p",
            all.text
        ),
    };
    let sql = format!(
        "/* groups::count_partitions */
         SELECT p.error_group, p.series_id, count(*), count(p.held),
             CAST(sum(CASE WHEN p.held IS NULL AND (p.spent >= {attempts} OR p.created_at <= {created})
                 THEN 1 ELSE 0 END) AS BIGINT)
         {from}
         GROUP BY p.error_group, p.series_id"
    );
    tx.built_rows(&sql, &all.params, |row| {
        let mut row = row.cursor();
        let group = groups::read_id(row.int()?)?;
        Ok(Count { group, series_id: row.int()?, count: row.count()?, withheld: row.count()?, exhausted: row.count()? })
    })
    .await
}
