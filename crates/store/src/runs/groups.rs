//! Failure groups of runs: what is failed now, counted by the groups' own indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::GroupId;
use redrive_core::id::RunId;

use super::list::RunPage;
use super::standing::Table;
use crate::db::{Param, Row, Tx};
use crate::error::Result;
use crate::groups::{self, Description};
use crate::handles::{View, read};
use crate::partitions;

/// Runs that are failed now and have one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunGroup {
    pub group: GroupId,
    pub description: Description,
    pub categories: Vec<String>,
    /// They will be tried again by themselves.
    pub waiting: u64,
    /// Their error is final.
    pub final_errors: u64,
    /// They have used up their attempts.
    pub exhausted: u64,
}

impl RunGroup {
    pub fn count(&self) -> u64 {
        self.waiting + self.final_errors + self.exhausted
    }
}

impl View {
    /// The failure groups of jobs and uploads, the largest first. Attempts at partitions are not among them: what is failed
    /// there is the partition.
    pub async fn run_groups(&self, asked: RunPage) -> Result<Vec<RunGroup>> {
        read!(self, "run groups", |tx, asked| all(tx, &asked))
    }

    /// One group of jobs and uploads, with no more than so many counted of each table; none where nothing is failed.
    pub async fn run_group(&self, group: GroupId, at_most: u32) -> Result<Option<RunGroup>> {
        read!(self.read_by_index, "run group", |tx, group| bounded(tx, *group, at_most))
    }
}

/// How many runs of one group, category and class a table has.
struct Count {
    group: GroupId,
    category: String,
    class: ErrorClass,
    count: u64,
}

impl Count {
    fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        let group = groups::read_id(row.int()?)?;
        Ok(Self { group, category: row.text()?, class: row.word()?, count: row.count()? })
    }
}

async fn all(tx: &mut Tx<'_>, asked: &RunPage) -> Result<Vec<RunGroup>> {
    let mut found: BTreeMap<GroupId, Tally> = BTreeMap::new();
    for table in Table::ALL.into_iter().filter(|table| table.has_groups() && is_asked(*table, asked)) {
        for count in count(tx, table, asked).await? {
            found.entry(count.group).or_default().add(table, &count);
        }
    }
    let mut groups = describe(tx, found).await?;
    groups.sort_by(|a, b| b.count().cmp(&a.count()).then(a.group.cmp(&b.group)));
    groups.truncate(usize::try_from(asked.limit).unwrap_or(usize::MAX));
    Ok(groups)
}

fn is_asked(table: Table, asked: &RunPage) -> bool {
    asked.states.is_empty() || table.states().iter().any(|state| asked.states.contains(state))
}

#[derive(Default)]
struct Tally {
    categories: Vec<String>,
    waiting: u64,
    final_errors: u64,
    exhausted: u64,
}

impl Tally {
    fn add(&mut self, table: Table, count: &Count) {
        let part = match (table, count.class) {
            (Table::Waiting | Table::Queue | Table::Claims, _) => &mut self.waiting,
            (Table::Ends, ErrorClass::Final) => &mut self.final_errors,
            (Table::Ends, ErrorClass::Retryable | ErrorClass::RateLimited) => &mut self.exhausted,
        };
        *part += count.count;
        if !count.category.is_empty() && !self.categories.contains(&count.category) {
            self.categories.push(count.category.clone());
        }
    }
}

/// The words of the partial indexes, which the databases must find in a statement to use them.
pub(super) const INDEXED: &str = "error_group IS NOT NULL AND workload <> 'extract'";

async fn count(tx: &mut Tx<'_>, table: Table, asked: &RunPage) -> Result<Vec<Count>> {
    let mut params: Vec<Param<'_>> = Vec::new();
    let mut conditions = vec![INDEXED.to_owned()];
    let mut add = |text: &str, param| {
        params.push(param);
        conditions.push(format!("{text} ?{}", params.len()));
    };
    if let Some(group) = asked.group {
        add("error_group =", group.number().into());
    }
    if let Some(workload) = asked.workload {
        add("workload =", workload.as_str().into());
    }
    if let Some(class) = asked.error_class {
        add("error_class =", class.as_str().into());
    }
    if let Some(since) = asked.since {
        add("run_id >=", RunId::first_of(since).uuid().into());
    }
    if let Some(until) = asked.until {
        add("run_id <", RunId::first_of(until).uuid().into());
    }
    if let Some(categories) = &asked.categories {
        let places: Vec<String> = categories
            .iter()
            .map(|category| {
                params.push(category.into());
                format!("?{}", params.len())
            })
            .collect();
        conditions.push(format!("category IN ({})", places.join(", ")));
    }
    let sql = format!(
        "/* groups::count */
         SELECT error_group, category, error_class, count(*)
         FROM {}
         WHERE {}
         GROUP BY error_group, category, error_class",
        table.name(),
        conditions.join(" AND ")
    );
    tx.built_rows(&sql, &params, Count::read).await
}

async fn bounded(tx: &mut Tx<'_>, group: GroupId, at_most: u32) -> Result<Option<RunGroup>> {
    let mut tally = Tally::default();
    for table in Table::ALL.into_iter().filter(|table| table.has_groups()) {
        let sql = format!(
            "/* groups::bounded */
             SELECT counted.error_group, counted.category, counted.error_class, count(*)
             FROM (
                 SELECT error_group, category, error_class
                 FROM {}
                 WHERE {INDEXED} AND error_group = ?1
                 LIMIT {at_most}) counted
             GROUP BY counted.error_group, counted.category, counted.error_class",
            table.name()
        );
        for count in tx.built_rows(&sql, &[group.number().into()], Count::read).await? {
            tally.add(table, &count);
        }
    }
    let is_empty = tally.waiting + tally.final_errors + tally.exhausted == 0;
    let found = if is_empty { BTreeMap::new() } else { BTreeMap::from([(group, tally)]) };
    Ok(describe(tx, found).await?.pop())
}

/// The first groups of jobs and uploads that are failed now, or wait for a further attempt.
pub(crate) async fn failed_groups(tx: &mut Tx<'_>) -> Result<Vec<GroupId>> {
    let mut found = Vec::new();
    for table in Table::ALL.into_iter().filter(|table| table.has_groups()) {
        found.extend(groups::distinct(tx, table.name(), "error_group", INDEXED, partitions::GROUPS).await?);
    }
    Ok(found)
}

async fn describe(tx: &mut Tx<'_>, found: BTreeMap<GroupId, Tally>) -> Result<Vec<RunGroup>> {
    let mut described = groups::describe(tx, found.keys().copied()).await?;
    let group = |(group, tally): (GroupId, Tally)| {
        let Tally { mut categories, waiting, final_errors, exhausted } = tally;
        categories.sort();
        let description = described.remove(&group)?;
        Some(RunGroup { group, description, categories, waiting, final_errors, exhausted })
    };
    Ok(found.into_iter().filter_map(group).collect())
}
