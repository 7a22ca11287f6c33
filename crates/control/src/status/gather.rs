//! Gathers the overview from the store, the sources' rules and the living processes.

use std::collections::BTreeMap;

use redrive_core::calendar;
use redrive_core::filter::Filter;
use redrive_core::hold::Hold;
use redrive_core::key::{LogicalDate, Source};
use redrive_core::process::Process;
use redrive_core::retry::RetryPolicy;
use redrive_store::{BOUND, OverviewQuery, QuerySpan};

use crate::error::Result;
use crate::expected;
use crate::insight::Insight;
use crate::shape::{
    Bounded, GroupShape, HoldShape, ProcessShape, RunCountsShape, SectionShape, SourceShape, StatusShape, WaitingJobs,
};

/// How many failure groups are shown.
const TOP: usize = 5;

/// How many days of how many queries are compared with the calendars, the latest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) days: u64,
    pub(super) queries: usize,
}

const LOOKED_AT: Reach = Reach { days: 20_000, queries: 5_000 };

/// What is missing of a source, and since which day it was looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    pub(super) days: u64,
    is_all: bool,
}

impl Insight {
    /// How everything stands, or one source. `config` is the fingerprint of the configuration that the caller follows.
    pub async fn status(&self, source: Option<&Source>, config: &str) -> Result<StatusShape> {
        let now = self.now();
        let holds = self.holds().await?;
        let processes = self.view().processes().await?;
        // Two at a time, because a person waits.
        let beside = async {
            let runs = self.view().run_counts().await?.into_iter().map(RunCountsShape::from);
            let runs = runs.filter(|runs| source.is_none() && !runs.is_empty()).collect();
            let groups = self.top_groups(source).await?;
            let jobs = if source.is_none() { self.waiting_jobs().await? } else { vec![] };
            Ok((runs, groups, jobs))
        };
        let (sources, (runs, groups, jobs)) = tokio::try_join!(self.sources_standing(source, &holds), beside)?;
        let of_source = |hold: &Hold| source.is_none_or(|source| hold.scope.source() == source);
        Ok(StatusShape {
            sources,
            runs,
            processes: processes.into_iter().map(|process: Process| ProcessShape::new(process, config, now)).collect(),
            holds: holds.into_iter().filter(of_source).map(HoldShape::from).collect(),
            groups,
            jobs,
            now,
        })
    }

    /// Jobs that are queued or due, each category with the section that names it.
    async fn waiting_jobs(&self) -> Result<Vec<WaitingJobs>> {
        let waiting = self.view().categories_waiting().await?;
        let jobs = waiting.into_iter().map(|(category, count)| {
            let queue = self.queues().of(&category);
            let section = queue.map(|queue| SectionShape { name: queue.name.clone(), has_handler: queue.has_handler });
            WaitingJobs { category, count: Bounded::new(count), section }
        });
        Ok(jobs.collect())
    }

    async fn sources_standing(&self, source: Option<&Source>, holds: &[Hold]) -> Result<Vec<SourceShape>> {
        let policies = self.sources().known().map(|(source, rules)| (source.clone(), rules.retry.clone())).collect();
        let query = OverviewQuery {
            source: source.cloned(),
            policies,
            otherwise: RetryPolicy::partitions(),
            holds: holds.to_vec(),
            now: self.now(),
        };
        let mut counts = self.view().source_counts(query).await?;
        for (name, _) in self.sources().known().filter(|(name, _)| source.is_none_or(|source| source == *name)) {
            counts.entry(name.clone()).or_default();
        }
        let missing = self.missing_counts(source, LOOKED_AT).await?;
        let shape = |(name, counts): (Source, _)| {
            let missing = missing.get(&name).map(|missing| (missing.days, missing.is_all));
            SourceShape::new(name, counts, missing)
        };
        Ok(counts.into_iter().map(shape).collect())
    }

    /// What calendars expect and is not there. Where there is much to compare, the latest days are.
    pub(super) async fn missing_counts(
        &self,
        source: Option<&Source>,
        reach: Reach,
    ) -> Result<BTreeMap<Source, Missing>> {
        let filter = Filter { source: source.cloned().into_iter().collect(), ..Filter::default() };
        let mut spans: Vec<QuerySpan> = expected::spans(self, &filter).into_iter().map(|(span, _)| span).collect();
        let is_cut = spans.len() > reach.queries;
        spans.truncate(reach.queries);
        let each = reach.days / u64::try_from(spans.len()).unwrap_or(u64::MAX).max(1);
        let mut found: BTreeMap<Source, Missing> = BTreeMap::new();
        let mut shortened = Vec::with_capacity(spans.len());
        for span in &mut spans {
            let since = latest_days(span, each.max(1));
            shortened.push(since > span.since);
            span.since = since;
        }
        let counts = self.view().count_days(spans.clone()).await?;
        for ((span, present), shortened) in spans.iter().zip(counts).zip(shortened) {
            let missing = found.entry(span.source.clone()).or_insert(Missing { days: 0, is_all: !is_cut });
            missing.days += calendar::count(span.since, span.until).saturating_sub(present);
            missing.is_all &= !shortened;
        }
        Ok(found)
    }

    async fn top_groups(&self, source: Option<&Source>) -> Result<Vec<GroupShape>> {
        let at_most = u32::try_from(BOUND).unwrap_or(u32::MAX);
        let largest = self.view().largest_groups(source.cloned(), at_most).await?;
        let mut groups = Vec::new();
        for (group, _) in largest.into_iter().take(TOP) {
            let source = source.cloned().into_iter().collect();
            let filter = Filter { group: Some(group), source, ..Filter::default() };
            let query = self.group_query(filter, Some(at_most));
            groups.extend(self.view().partition_groups(query).await?.into_iter().map(GroupShape::from));
        }
        Ok(groups)
    }
}

/// The first of the last so many days of a span.
fn latest_days(span: &QuerySpan, days: u64) -> LogicalDate {
    let back = i64::try_from(days.saturating_sub(1)).unwrap_or(i64::MAX);
    span.until.days_before(back).map_or(span.since, |first| first.max(span.since))
}
