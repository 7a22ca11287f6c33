//! What gauges show of sources and workloads, all of one snapshot. Each number is a range of an index and ends at a bound that
//! the caller gives, so that a scrape costs as much at a million partitions and runs as at a thousand.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::key::{LogicalDate, Source};
use redrive_core::retry::RetryPolicy;
use redrive_core::time::Timestamp;

use crate::db::{Dialect, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::overview::{self, RunCounts};
use crate::partitions::Period;
use crate::source_ranges::{self, LimitedSource, Ranges, Retryable};

/// What the numbers go by.
#[derive(Debug, Clone)]
pub struct GaugeQuery {
    /// The sources that are looked at in any case, with their policies.
    pub known: BTreeMap<Source, RetryPolicy>,
    /// How many others are looked at, in the order of their names.
    pub others: usize,
    /// The policy of every other.
    pub otherwise: RetryPolicy,
    pub now: Timestamp,
    /// No number goes beyond this.
    pub most: u64,
}

/// How the partitions of a source stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceGauges {
    pub success: u64,
    pub pending: u64,
    pub failed: u64,
    /// Of those that failed, by whom they are terminal.
    pub marked: u64,
    pub exhausted: u64,
    pub final_errors: u64,
    /// The latest day that has succeeded.
    pub newest_success: Option<LogicalDate>,
}

impl View {
    /// How the partitions of sources stand; a source that has none is left out.
    pub async fn source_gauges(&self, query: GaugeQuery) -> Result<BTreeMap<Source, SourceGauges>> {
        read!(self.read_by_index, "source gauges", |tx, query| sources(tx, &query))
    }

    /// How the runs of each workload stand, no number beyond `most`.
    pub async fn run_gauges(&self, most: u64) -> Result<Vec<RunCounts>> {
        read!(self.read_by_index, "run gauges", |tx, most| overview::runs(tx, *most))
    }
}

static NUMBER: Sql = Sql::new(
    "/* gauges::number */
     SELECT source_no
     FROM series
     WHERE source = ?1
     ORDER BY source, customer_id, query_name
     LIMIT 1",
);

async fn sources(tx: &mut Tx<'_>, query: &GaugeQuery) -> Result<BTreeMap<Source, SourceGauges>> {
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    for (source, policy) in &query.known {
        if let Some(number) = tx.row(&NUMBER, &[source.as_str().into()], |row| row.int(0)).await? {
            numbers.push(LimitedSource::new(number, policy, query.now));
            names.push(source.clone());
        }
    }
    let (mut after, mut others): (Option<Source>, _) = (None, 0);
    while others < query.others
        && let Some((source, number)) = overview::next_source(tx, after.as_ref()).await?
    {
        if !query.known.contains_key(&source) {
            numbers.push(LimitedSource::new(number, &query.otherwise, query.now));
            names.push(source.clone());
            others += 1;
        }
        after = Some(source);
    }
    let ranges = source_ranges::ranges(tx, &numbers, query.most).await?;
    let retryable = source_ranges::retryable(tx, &numbers, query.most).await?;
    let gauges = ranges.into_iter().zip(retryable).map(|(ranges, failures)| gauges(ranges, failures, query.most));
    names.into_iter().zip(gauges).map(|(source, gauges)| Ok((source, gauges?))).collect()
}

fn gauges(ranges: Ranges, failures: Retryable, most: u64) -> Result<SourceGauges> {
    let Ranges { success, newest, queued, running, marked, paused, paused_failed, final_errors, final_stopped } =
        ranges;
    let Retryable { spent, open, old } = failures;
    Ok(SourceGauges {
        success,
        pending: (queued + running + paused.saturating_sub(paused_failed)).min(most),
        failed: (spent + open + final_errors + marked + paused_failed).min(most),
        marked,
        exhausted: (spent + old + final_stopped).min(most),
        final_errors: final_errors.saturating_sub(final_stopped),
        newest_success: newest.map(|period| Period::from_row(period).date()).transpose()?,
    })
}

/// What these are read by, for a test that looks at the plans.
pub(crate) fn statements(dialect: Dialect) -> Vec<String> {
    let mut all = vec![NUMBER.render(dialect).to_owned(), overview::NEXT_SOURCE.render(dialect).to_owned()];
    all.extend(source_ranges::questions(dialect));
    all.push(overview::question_of_runs(dialect));
    all
}
