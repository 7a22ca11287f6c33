//! Backfill: wants a partition for every day of a range, for every customer and query that the filter means.

use redrive_core::any_of::AnyOf;
use redrive_core::calendar;
use redrive_core::count;
use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;

use super::operate::Watch;
use super::plan::PlannedVerb;
use super::select::{Ask, Basis, CHUNK, Candidate, Chunk, Selection};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::Report;

pub(super) const BACKFILL: &str = "backfill";

/// The days of a backfill: every customer and query, from one day to another.
#[derive(Debug, Clone)]
pub(super) struct Range {
    queries: Vec<(Source, CustomerId, QueryName)>,
    since: LogicalDate,
    until: LogicalDate,
}

impl Range {
    fn count(&self) -> u64 {
        count::of(self.queries.len()).saturating_mul(calendar::count(self.since, self.until))
    }

    fn keys(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.queries.iter().flat_map(|(source, customer_id, query_name)| {
            calendar::days(self.since, self.until).map(|logical_date| PartitionKey {
                source: source.clone(),
                customer_id: customer_id.clone(),
                query_name: query_name.clone(),
                logical_date,
            })
        })
    }

    pub(super) fn selection<'a>(&'a self, insight: &'a Insight, force_pending: bool) -> ByDays<'a> {
        ByDays { insight, keys: Box::new(self.keys()), force_pending }
    }
}

impl Insight {
    /// How many partitions a backfill is about.
    pub fn backfill_size(&self, filter: &Filter) -> Result<u64> {
        Ok(self.range(filter)?.count())
    }

    /// What a filter means: the days it gives, and the customers and queries it names or the source's configuration has.
    pub(super) fn range(&self, filter: &Filter) -> Result<Range> {
        filter.check_for_change(self.bounds())?;
        let (Some(since), Some(until)) = (filter.since, filter.until) else {
            return Err(Error::NeedsDates);
        };
        if filter.group.is_some() {
            return Err(Error::NotByGroup);
        }
        if filter.source.is_all() {
            return Err(Error::NeedsSource);
        }
        let mut all = Vec::new();
        for source in filter.source.iter() {
            let rules = self.sources().of(source);
            let customers = named(&filter.customer_id, &rules.customers, source, ("customer_id", "customers"))?;
            let queries = named(&filter.query_name, &rules.queries, source, ("query_name", "queries"))?;
            for customer in &customers {
                all.extend(queries.iter().map(|query| (source.clone(), customer.clone(), query.clone())));
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(Range { queries: all, since, until })
    }
}

impl ControlPlane {
    /// Wants the days that are not there; with `force_pending`, also those that are there and finished.
    pub async fn backfill(
        &self,
        filter: &Filter,
        force_pending: bool,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let range = self.insight.range(filter)?;
        let operation = self.operation(audit, filter, &PlannedVerb::Backfill { force_pending }.flags(audit));
        let selection = range.selection(&self.insight, force_pending);
        self.work_through(selection, audit, operation, Report::new(BACKFILL, false), watch).await
    }
}

/// The days of a range, each as it is now or as it will be made.
pub(super) struct ByDays<'a> {
    insight: &'a Insight,
    keys: Box<dyn Iterator<Item = PartitionKey> + Send + 'a>,
    force_pending: bool,
}

impl Selection for ByDays<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let keys: Vec<PartitionKey> = self.keys.by_ref().take(usize::try_from(CHUNK).unwrap_or(1)).collect();
        let found = self.insight.view().partitions_of(keys.clone()).await?;
        let now = self.insight.now();
        let candidate = |(key, found): (PartitionKey, Option<Partition>)| {
            let ask = Ask::Backfill { force_pending: self.force_pending };
            match found {
                Some(partition) => Candidate::partition(partition, ask, Basis::Read),
                None => Candidate::partition(Partition::new(key, Lane::Backfill, now), ask, Basis::Absent),
            }
        };
        Ok(Chunk { candidates: keys.into_iter().zip(found).map(candidate).collect(), skipped: vec![] })
    }
}

/// The values that a filter names, or all that the source's configuration has.
fn named<T: Clone + Ord>(
    given: &AnyOf<T>,
    all: &[T],
    source: &Source,
    (field, section): (&'static str, &'static str),
) -> Result<Vec<T>> {
    match (given.is_all(), all) {
        (false, _) => Ok(given.iter().cloned().collect()),
        (true, []) => Err(Error::NoneConfigured { field, of: source.clone(), section }),
        (true, all) => Ok(all.to_vec()),
    }
}
