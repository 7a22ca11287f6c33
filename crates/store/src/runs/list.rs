//! Reading runs: one, its payload, and a page of many.
//!
//! A page walks down the primary key of each table that it may find runs in, category by category, and takes the newest of what
//! comes up; so that it costs the page and not the history.

use std::sync::Arc;

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::GroupId;
use redrive_core::id::RunId;
use redrive_core::run::{Run, State, Workload};
use redrive_core::time::Timestamp;

use super::bundle;
use super::groups::INDEXED;
use super::row;
use super::standing::Table;
use crate::db::{Param, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

/// Which runs a listing means.
#[derive(Debug, Clone, Default)]
pub struct RunPage {
    pub workload: Option<Workload>,
    /// Only jobs of these; none means runs of all kinds.
    pub categories: Option<Vec<String>>,
    /// Only these; empty means all.
    pub states: Vec<State>,
    pub error_class: Option<ErrorClass>,
    /// Only what is failed now, of this group: what waits after a failure, and what is dead by one.
    pub group: Option<GroupId>,
    /// Submitted at this moment or later. For an extraction the moment of its claim counts.
    pub since: Option<Timestamp>,
    /// Submitted before this moment.
    pub until: Option<Timestamp>,
    /// Newest first; the last one seen.
    pub before: Option<RunId>,
    pub limit: u32,
}

impl View {
    pub async fn run(&self, id: RunId) -> Result<Option<Run>> {
        read!(self.read_by_index, "run", |tx, id| row::get(tx, *id))
    }

    /// Runs by their ids, in the order of the ids; those that are not there are left out.
    pub async fn runs_of(&self, ids: Vec<RunId>) -> Result<Vec<Run>> {
        read!(self.read_by_index, "runs by id", |tx, ids| row::get_many(tx, &ids))
    }

    /// A page of runs, the newest submission first.
    pub async fn runs(&self, asked: RunPage) -> Result<Vec<Run>> {
        read!(self.read_by_index, "runs", |tx, asked| page(tx, &asked))
    }

    /// What a run was submitted with.
    pub async fn payload(&self, id: RunId) -> Result<Option<String>> {
        read!(self.read_by_index, "payload", |tx, id| payload(tx, *id))
    }
}

static PAYLOAD: Sql = Sql::new(
    "/* runs::payload */
     SELECT payload
     FROM run_specs
     WHERE run_id = ?1",
);

pub(super) async fn payload(tx: &mut Tx<'_>, id: RunId) -> Result<Option<String>> {
    Ok(tx.row(&PAYLOAD, &[id.uuid().into()], |row| row.opt_text(0)).await?.flatten())
}

async fn page(tx: &mut Tx<'_>, page: &RunPage) -> Result<Vec<Run>> {
    let mut ids = Vec::new();
    for table in Table::ALL {
        let states: Vec<State> = table
            .states()
            .iter()
            .copied()
            .filter(|state| page.states.is_empty() || page.states.contains(state))
            .collect();
        if states.is_empty() || (page.group.is_some() && !table.has_groups()) {
            continue;
        }
        for (workload, category) in queues(tx, table, page).await? {
            ids.extend(newest(tx, table, &states, (workload, &category), page).await?);
            if table == Table::Claims && workload == Workload::Process {
                ids.extend(in_bundles(tx, &category, page).await?);
            }
        }
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
    row::get_many(tx, &ids).await
}

/// The workloads and categories of a table that a page looks at.
async fn queues(tx: &mut Tx<'_>, table: Table, page: &RunPage) -> Result<Vec<(Workload, String)>> {
    let mut queues = Vec::new();
    for &workload in Workload::ALL.iter().filter(|&&workload| page.workload.is_none_or(|asked| asked == workload)) {
        let categories = match (workload, &page.categories) {
            (Workload::Process, Some(categories)) => categories.clone(),
            (Workload::Process, None) => {
                let mut categories = categories_of(tx, table, workload).await?;
                if table == Table::Claims {
                    categories.extend(bundle::categories(tx).await?);
                }
                categories
            }
            // Only jobs have a category.
            (Workload::Extract | Workload::Ingest, Some(_)) => vec![],
            (Workload::Extract | Workload::Ingest, None) => vec![String::new()],
        };
        queues.extend(categories.into_iter().map(|category| (workload, category)));
    }
    queues.sort_unstable();
    queues.dedup();
    Ok(queues)
}

/// The categories of a table, one step down its key for each.
pub(super) async fn categories_of(tx: &mut Tx<'_>, table: Table, workload: Workload) -> Result<Vec<String>> {
    let table = table.name();
    let sql = format!(
        "/* runs::categories_of */
         WITH RECURSIVE found(category) AS (
             SELECT min(category)
             FROM {table}
             WHERE workload = ?1
             UNION ALL
             SELECT (
                 SELECT min(t.category)
                 FROM {table} t
                 WHERE t.workload = ?1
                   AND t.category > found.category
             )
             FROM found
             WHERE found.category IS NOT NULL
         )
         SELECT category
         FROM found
         WHERE category IS NOT NULL"
    );
    tx.built_rows(&sql, &[workload.as_str().into()], |row| row.text(0)).await
}

/// The runs of one category that are in bundles, as far as the page means them. None of them has failed before.
async fn in_bundles(tx: &mut Tx<'_>, category: &str, page: &RunPage) -> Result<Vec<RunId>> {
    if page.error_class.is_some() {
        return Ok(vec![]);
    }
    let mut ids = bundle::of_category(tx, category).await?;
    ids.retain(|id| {
        page.before.is_none_or(|before| *id < before)
            && page.since.is_none_or(|since| *id >= RunId::first_of(since))
            && page.until.is_none_or(|until| *id < RunId::first_of(until))
    });
    Ok(ids)
}

/// The newest runs of one category in one table.
async fn newest(
    tx: &mut Tx<'_>,
    table: Table,
    states: &[State],
    (workload, category): (Workload, &str),
    page: &RunPage,
) -> Result<Vec<RunId>> {
    let mut params: Vec<Param<'_>> = vec![workload.as_str().into(), category.into()];
    let mut conditions = vec!["workload = ?1".to_owned(), "category = ?2".to_owned()];
    let mut add = |text: &str, param| {
        params.push(param);
        conditions.push(format!("{text} ?{}", params.len()));
    };
    if let Some(before) = page.before {
        add("run_id <", before.uuid().into());
    }
    if let Some(since) = page.since {
        add("run_id >=", RunId::first_of(since).uuid().into());
    }
    if let Some(until) = page.until {
        add("run_id <", RunId::first_of(until).uuid().into());
    }
    if let Some(class) = page.error_class {
        add("error_class =", class.as_str().into());
    }
    if let Some(group) = page.group {
        add("error_group =", group.number().into());
    }
    if page.group.is_some() && workload != Workload::Extract {
        conditions.push(INDEXED.to_owned());
    }
    // A partial index is there for what is written out; the words are ours.
    if let [state] = states
        && table.states().len() > 1
    {
        conditions.push(format!("state = '{state}'"));
    }
    let sql = format!(
        "/* runs::newest */
         SELECT run_id
         FROM {}
         WHERE {}
         ORDER BY run_id DESC
         LIMIT {}",
        table.name(),
        conditions.join(" AND "),
        page.limit
    );
    tx.built_rows(&sql, &params, |row| row.id(0).map(RunId::from_uuid)).await
}
