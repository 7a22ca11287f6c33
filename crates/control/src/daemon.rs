//! The retry daemon: a loop of ticks, each of which looks at the store afresh and keeps nothing in mind.
//!
//! A tick requeues what is due, by the same commit as `state retry`, and wants what the calendars expect. Any number of
//! daemons may run at once: each partition's version lets exactly one of them requeue it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::calendar::Calendar;
use redrive_core::count;
use redrive_core::filter::Filter;
use redrive_core::hold::{self, Hold};
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::outlook::{self, Outlook};
use redrive_core::partition::{ControlEvent, Partition};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use redrive_metrics::Event;
use redrive_store::{DueBand, DueQuery, Outcome, RejectedBand};
use serde::Serialize;
use serde_json::json;

use crate::audit::Audit;
use crate::change::same_query;
use crate::error::Result;
use crate::expected::{self, MissingDays};
use crate::insight::Insight;
use crate::plane::ControlPlane;

/// How many failures are looked at, and requeued, at a time.
const LOOK: u32 = 1000;
const COMMAND: &str = "daemon";

/// How long idempotency keys and the answers to outside workers are kept.
const KEPT_FOR: Duration = Duration::from_secs(86_400);

/// What one tick did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// Failures that backoff may have let go, looked at one by one.
    pub considered: u64,
    pub requeued: u64,
    /// Another caller was quicker.
    pub overtaken: u64,
    /// Expected partitions that were not there.
    pub enqueued: u64,
    /// Runs that ended longer ago than their section keeps them, and are forgotten.
    pub pruned: u64,
    /// More runs are to be forgotten than one tick forgets.
    #[serde(skip)]
    pub is_behind: bool,
    /// What each requeued or enqueued partition is, with `--dry-run`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would: Vec<TickAction>,
}

impl Tick {
    /// What this one and the next did.
    pub fn and(self, next: Self) -> Self {
        Self {
            considered: self.considered + next.considered,
            requeued: self.requeued + next.requeued,
            overtaken: self.overtaken + next.overtaken,
            enqueued: self.enqueued + next.enqueued,
            pruned: self.pruned + next.pruned,
            is_behind: next.is_behind,
            would: [self.would, next.would].concat(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TickAction {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub action: &'static str,
    pub attempt_count: u32,
    pub delay_seconds: u64,
}

impl ControlPlane {
    /// Requeues what is due, and wants what the calendars expect.
    pub async fn tick(&self, actor: &str) -> Result<Tick> {
        let audit = Audit::new(actor, COMMAND);
        let tick =
            Ticking { insight: &self.insight, acting: Some((self, &audit)), tick: Tick::default() }.run().await?;
        self.store.metrics().daemon_passed(self.store.now());
        if tick.requeued + tick.enqueued > 0 {
            self.log_head().await;
        }
        Ok(tick)
    }
}

impl ControlPlane {
    /// Goes on with operations whose process is gone, and forgets plans, keys and answers that are kept no longer.
    async fn tidy(&self) -> Result<()> {
        self.carry_on_all(&AtomicBool::new(false)).await?;
        let a_day_ago = self.store.now().saturating_sub(KEPT_FOR);
        self.store.forget_keys(a_day_ago).await?;
        self.store.forget_answers(a_day_ago).await?;
        self.store.prune_plans().await?;
        Ok(())
    }
}

impl Insight {
    /// Says what a tick would do.
    pub async fn foresee_tick(&self) -> Result<Tick> {
        Ticking { insight: self, acting: None, tick: Tick::default() }.run().await
    }
}

/// One look at everything that might be due or missing.
struct Ticking<'a> {
    insight: &'a Insight,
    /// Who acts on what is found; none for a dry run.
    acting: Option<(&'a ControlPlane, &'a Audit)>,
    tick: Tick,
}

impl Ticking<'_> {
    async fn run(mut self) -> Result<Tick> {
        let holds = self.insight.holds().await?;
        for band in self.insight.view().due_bands().await? {
            self.requeue_band(&band, &holds).await?;
        }
        for band in self.insight.view().rejected_bands().await? {
            self.requeue_rejected(&band, &holds).await?;
        }
        self.want_expected().await?;
        (self.tick.pruned, self.tick.is_behind) = match self.acting {
            Some((plane, _)) => plane.prune_by_sections().await?,
            None => (self.insight.prunable_by_sections().await?, false),
        };
        if let Some((plane, _)) = self.acting {
            plane.tidy().await?;
        }
        Ok(self.tick)
    }

    async fn requeue_band(&mut self, band: &DueBand, holds: &[Hold]) -> Result<()> {
        let policy = &self.insight.sources().of(&band.source).retry;
        if policy.is_spent(band.spent) {
            return Ok(());
        }
        let now = self.insight.now();
        let mut query = DueQuery {
            band: band.clone(),
            decided_by: outlook::reach(band.spent, policy, now),
            created_after: outlook::age_limit(policy, now),
            after: None,
            limit: LOOK,
        };
        loop {
            let found = self.insight.view().due(query.clone()).await?;
            let Some(last) = found.last() else { return Ok(()) };
            query.after = Some((last.state.updated_at, last.state.key.clone()));
            self.tick.considered += count::of(found.len());
            let full = found.len() >= usize::try_from(LOOK).unwrap_or(usize::MAX);
            self.requeue(due(found, policy, holds, now)).await?;
            if !full {
                return Ok(());
            }
        }
    }

    /// Asks again for successes whose reprocess was rejected. They are few: each is looked at.
    async fn requeue_rejected(&mut self, band: &RejectedBand, holds: &[Hold]) -> Result<()> {
        let policy = &self.insight.sources().of(&band.source).retry;
        if policy.is_spent(band.rejected.saturating_sub(band.granted)) {
            return Ok(());
        }
        let now = self.insight.now();
        let mut after = None;
        loop {
            let found = self.insight.view().rejected(band.clone(), after, LOOK).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = Some(last.state.key.clone());
            self.tick.considered += count::of(found.len());
            self.requeue(due(found, policy, holds, now)).await?;
        }
    }

    /// Requeues partitions, one operation for each customer and query.
    async fn requeue(&mut self, mut due: Vec<(Partition, Duration)>) -> Result<()> {
        due.sort_by(|(a, _), (b, _)| a.state.key.cmp(&b.state.key));
        for group in due.chunk_by(|(a, _), (b, _)| same_query(&a.state.key, &b.state.key)) {
            let Some((first, _)) = group.first() else { continue };
            let Some((plane, audit)) = self.acting else {
                self.tick.requeued += count::of(group.len());
                self.tick.would.extend(group.iter().map(|(partition, delay)| action(partition, "requeue", *delay)));
                continue;
            };
            let key = &first.state.key;
            let filter = Filter { since: None, until: None, ..Filter::key(key) };
            let operation = plane.operation(audit, &filter, &json!({"force": true}));
            let policy = &self.insight.sources().of(&key.source).retry;
            let event = ControlEvent::Retry { policy, clear_terminal: false, stale: false, grant: None };
            let items = group.iter().map(|(partition, _)| (partition.clone(), event.clone())).collect();
            for (outcome, (partition, delay)) in plane.store.commit(&operation, items).await?.iter().zip(group) {
                match outcome {
                    Outcome::Changed { .. } => {
                        self.tick.requeued += 1;
                        let (key, attempts) = (&partition.state.key, partition.state.attempt_count);
                        tracing::info!(%key, attempt_count = attempts, delay_s = delay.as_secs(), "requeued");
                        let retry = Event::RetryIn { workload: Workload::Extract, delay: *delay };
                        plane.store.metrics().report(vec![retry]);
                    }
                    Outcome::Overtaken(_) | Outcome::Refused(_) => self.tick.overtaken += 1,
                }
            }
        }
        Ok(())
    }

    /// Wants what the calendars expect and is not there: recent days as fresh, older ones as history.
    async fn want_expected(&mut self) -> Result<()> {
        for (span, latest) in expected::spans(self.insight, &Filter::default()) {
            let Some(missing) = expected::missing_days(self.insight, span, latest).await? else { continue };
            let now = self.insight.now();
            let new = |key: PartitionKey| {
                let lane = Calendar::lane(key.logical_date, missing.latest);
                Partition::new(key, lane, now)
            };
            let wanted: Vec<Partition> = missing.keys().map(new).collect();
            let Some((plane, audit)) = self.acting else {
                self.tick.enqueued += count::of(wanted.len());
                self.tick.would.extend(wanted.iter().map(|partition| action(partition, "enqueue", Duration::ZERO)));
                continue;
            };
            let MissingDays { source, customer_id, query_name, .. } = &missing;
            let filter = Filter::series(source.clone(), customer_id.clone(), query_name.clone());
            let operation = plane.operation(audit, &filter, &json!({"expected": true}));
            for chunk in wanted.chunks(usize::try_from(LOOK).unwrap_or(1)) {
                let new = plane.store.enqueue(&operation, chunk.to_vec()).await?;
                for (partition, _) in chunk.iter().zip(new).filter(|(_, new)| *new) {
                    self.tick.enqueued += 1;
                    let lane = partition.control.wanted.map_or(Lane::Fresh, |wanted| wanted.lane);
                    tracing::info!(key = %partition.state.key, %lane, "expected, and not there: wanted");
                }
            }
        }
        Ok(())
    }
}

/// What of all this is due, and how long it waited.
fn due(found: Vec<Partition>, policy: &RetryPolicy, holds: &[Hold], now: Timestamp) -> Vec<(Partition, Duration)> {
    let mut due = Vec::new();
    for partition in found {
        let hold = hold::reason(holds, &partition.state.key, now);
        if let Outlook::Due { delay, .. } = outlook::of(&partition, policy, hold, now) {
            due.push((partition, delay));
        }
    }
    due
}

fn action(partition: &Partition, action: &'static str, delay: Duration) -> TickAction {
    TickAction {
        key: partition.state.key.clone(),
        action,
        attempt_count: partition.state.attempt_count,
        delay_seconds: delay.as_secs(),
    }
}
