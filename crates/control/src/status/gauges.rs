//! What gauges show: few numbers, each of which ends at a bound. It is asked every few seconds for ever, so that it looks at much less
//! than the overview does.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::calendar;
use redrive_core::hold::HoldKind;
use redrive_core::key::Source;
use redrive_core::lane::Lane;
use redrive_core::process::{Kind, Process};
use redrive_core::retry::RetryPolicy;
use redrive_core::time::Timestamp;
use redrive_store::{GaugeQuery, QueueState, RunCounts, SourceGauges};

use super::gather::Reach;
use crate::error::Result;
use crate::insight::Insight;

/// How many sources are shown that the configuration does not name.
const UNKNOWN_SOURCES: usize = 32;

/// How far the numbers of all sources together go, and how far each goes at the least and at the most.
const COUNTED: u64 = 60_000;
const LEAST: u64 = 1_000;
const MOST: u64 = 10_000;

/// How much is compared with the calendars.
const MISSING: Reach = Reach { days: 5_000, queries: 1_000 };

/// How everything stands.
#[derive(Debug, Clone)]
pub struct Gauges {
    pub sources: Vec<SourceGauge>,
    pub runs: Vec<RunCounts>,
    pub holds: BTreeMap<(Source, HoldKind), u64>,
    pub processes: BTreeMap<(Kind, ProcessState), u64>,
    pub lanes: Vec<QueueState<Lane>>,
    pub categories: Vec<QueueState<String>>,
    pub outbox: u64,
    pub now: Timestamp,
}

/// How a source stands.
#[derive(Debug, Clone)]
pub struct SourceGauge {
    pub source: Source,
    pub counts: SourceGauges,
    /// Days that its calendar expects and that are not there.
    pub missing: Option<u64>,
    /// How long ago the newest day that succeeded was over.
    pub freshness: Option<Duration>,
    /// How long ago it may have been over, by the calendar, before the day after it is ready.
    pub freshness_limit: Option<Duration>,
}

/// Whether a process is there, and does what it is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessState {
    Alive,
    /// Alive, and asks for no work.
    NotClaiming,
    Silent,
}

impl ProcessState {
    fn of(process: &Process, now: Timestamp) -> Self {
        match (process.is_alive(now), process.is_claiming(now)) {
            (true, true) => Self::Alive,
            (true, false) => Self::NotClaiming,
            (false, _) => Self::Silent,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::NotClaiming => "not_claiming",
            Self::Silent => "silent",
        }
    }
}

impl Insight {
    /// How everything stands, for gauges.
    pub async fn gauges(&self) -> Result<Gauges> {
        let now = self.now();
        let mut holds: BTreeMap<_, u64> = BTreeMap::new();
        for hold in self.holds().await? {
            *holds.entry((hold.scope.source().clone(), hold.kind())).or_default() += 1;
        }
        let mut processes: BTreeMap<_, u64> = BTreeMap::new();
        for process in self.view().processes().await? {
            *processes.entry((process.kind, ProcessState::of(&process, now))).or_default() += 1;
        }
        // Two at a time, so that a scrape is over soon.
        let beside = async {
            let (runs, lanes) = (self.view().run_gauges(MOST).await?, self.view().lane_queues().await?);
            Ok((runs, lanes, self.view().category_queues().await?, self.view().outbox_depth().await?.open))
        };
        let (sources, (runs, lanes, categories, outbox)) = tokio::try_join!(self.source_gauges(now), beside)?;
        Ok(Gauges { sources, runs, holds, processes, lanes, categories, outbox, now })
    }

    async fn source_gauges(&self, now: Timestamp) -> Result<Vec<SourceGauge>> {
        let known: BTreeMap<Source, RetryPolicy> =
            self.sources().known().map(|(source, rules)| (source.clone(), rules.retry.clone())).collect();
        let expected = u64::try_from(known.len()).unwrap_or(u64::MAX).max(1);
        let query = GaugeQuery {
            known: known.clone(),
            others: UNKNOWN_SOURCES,
            otherwise: RetryPolicy::partitions(),
            now,
            most: (COUNTED / expected).clamp(LEAST, MOST),
        };
        let mut counts = self.view().source_gauges(query).await?;
        for source in known.into_keys() {
            counts.entry(source).or_default();
        }
        let missing = self.missing_counts(None, MISSING).await?;
        let gauge = |(source, counts): (Source, SourceGauges)| {
            let missing = missing.get(&source).map(|missing| missing.days);
            let (freshness, freshness_limit) = self.freshness(&source, counts, now);
            SourceGauge { source, counts, missing, freshness, freshness_limit }
        };
        Ok(counts.into_iter().map(gauge).collect())
    }

    /// How old the newest day is, and how old it may be.
    fn freshness(&self, source: &Source, counts: SourceGauges, now: Timestamp) -> (Option<Duration>, Option<Duration>) {
        let Some((newest, end)) = counts.newest_success.and_then(|day| Some((day, calendar::end_of(day)?))) else {
            return (None, None);
        };
        let calendar = self.sources().of(source).calendar.as_ref();
        let ready = newest.tomorrow().and_then(|next| calendar?.ready(next));
        (Some(now.since(end)), ready.map(|ready| ready.since(end)))
    }
}
