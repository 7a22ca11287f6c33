//! Retention: forgetting jobs and uploads that ended long ago, in small transactions.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::id::OpId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use redrive_store::{Operation, Prunable, Pruning};
use serde::Serialize;
use serde_json::json;

use crate::audit::Audit;
use crate::change::Watch;
use crate::error::Result;
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::Halt;

/// How many runs one transaction forgets.
const BATCH: u32 = 500;
/// How many transactions a tick of the daemon spends on one section. The next tick goes on, and follows at once when they were not enough:
/// what is due for a retry is looked at in between.
const BATCHES: u32 = 50;
/// How many runs are found at once by one that only counts.
const PAGE: u32 = 5000;
/// How far a dry run counts.
const COUNTED: u64 = 1_000_000;

/// What pruning by hand did, or would do.
#[derive(Debug, Serialize)]
pub struct PruneReport {
    pub op_id: Option<OpId>,
    pub dry_run: bool,
    pub ended_before: Timestamp,
    pub pruned: u64,
    #[serde(skip)]
    pub halt: Option<Halt>,
}

fn jobs(categories: Option<Vec<String>>, ended_before: Timestamp) -> Pruning {
    Pruning { workload: Workload::Process, categories, ended_before }
}

impl Insight {
    /// Says how many jobs would be forgotten, counted up to a million.
    pub async fn foresee_prune(&self, categories: Option<Vec<String>>, ended_before: Timestamp) -> Result<PruneReport> {
        let pruned = self.count_prunable(jobs(categories, ended_before)).await?;
        Ok(PruneReport { op_id: None, dry_run: true, ended_before, pruned, halt: None })
    }

    /// How many jobs and uploads the sections keep no longer.
    pub(crate) async fn prunable_by_sections(&self) -> Result<u64> {
        let mut prunable = 0;
        for pruning in self.kept_no_longer() {
            prunable += self.count_prunable(pruning).await?;
        }
        if let Some(pruning) = self.uploads_kept_no_longer() {
            prunable += self.count_prunable(pruning).await?;
        }
        Ok(prunable)
    }

    async fn count_prunable(&self, pruning: Pruning) -> Result<u64> {
        let (mut counted, mut after) = (0, None);
        while counted < COUNTED
            && let Some(page) = self.view().prunable_runs(pruning.clone(), after, PAGE).await?
        {
            counted += u64::try_from(page.runs.len()).unwrap_or(0);
            after = Some(page);
        }
        Ok(counted)
    }

    /// Uploads that are kept no longer, where not all are kept.
    fn uploads_kept_no_longer(&self) -> Option<Pruning> {
        let ended_before = self.now().saturating_sub(self.uploads_kept()?);
        Some(Pruning { workload: Workload::Ingest, categories: None, ended_before })
    }

    /// What the sections do not keep, of those that do not keep everything.
    fn kept_no_longer(&self) -> Vec<Pruning> {
        let now = self.now();
        let kept = self.queues().iter().filter_map(|queue| Some((queue.categories.clone(), queue.keep?)));
        kept.map(|(categories, keep)| jobs(Some(categories), now.saturating_sub(keep))).collect()
    }
}

impl ControlPlane {
    /// Forgets jobs that ended before a moment. What was forgotten stays so when it is stopped half-way. The audit trail has how many
    /// were `counted` beforehand.
    pub async fn prune(
        &self,
        categories: Option<Vec<String>>,
        ended_before: Timestamp,
        counted: u64,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> PruneReport {
        let filters = json!({"category": categories, "ended_before": ended_before, "counted": counted});
        let operation = self.operation(audit, &filters, &audit.flags());
        let (pruned, end) = self.forget(Some(&operation), jobs(categories, ended_before), u32::MAX, watch).await;
        let op_id = (pruned > 0).then_some(operation.op_id);
        let halt = match end {
            ForgetEnd::Halted(halt) => Some(halt),
            ForgetEnd::NothingLeft | ForgetEnd::MoreLeft => None,
        };
        PruneReport { op_id, dry_run: false, ended_before, pruned, halt }
    }

    /// Forgets what the sections keep no longer; gives how many, and whether more may be left than a tick forgets.
    pub(crate) async fn prune_by_sections(&self) -> Result<(u64, bool)> {
        let jobs = self.insight.kept_no_longer().into_iter().map(|pruning| (pruning, BATCHES));
        let uploads = self.insight.uploads_kept_no_longer().map(|pruning| (pruning, 1));
        let never = AtomicBool::new(false);
        let watch = Watch { cancelled: &never, progress: &|_| {}, stop_after: None };
        let (mut pruned, mut is_behind) = (0, false);
        for (pruning, batches) in jobs.chain(uploads) {
            let (some, end) = self.forget(None, pruning, batches, watch).await;
            pruned += some;
            match end {
                ForgetEnd::NothingLeft => {}
                ForgetEnd::MoreLeft | ForgetEnd::Halted(Halt::Interrupted) => is_behind = true,
                ForgetEnd::Halted(Halt::Fault(error)) => return Err(error),
            }
        }
        // Also what an earlier tick began, whatever the section says now.
        self.store.forget_uploads(BATCHES).await?;
        Ok((pruned, is_behind))
    }

    /// Forgets runs in at most so many transactions; gives how many.
    async fn forget(
        &self,
        operation: Option<&Operation>,
        pruning: Pruning,
        batches: u32,
        watch: Watch<'_>,
    ) -> (u64, ForgetEnd) {
        let (mut pruned, mut after) = (0, None);
        for _ in 0..batches {
            if watch.cancelled.load(Ordering::SeqCst) {
                return (pruned, ForgetEnd::Halted(Halt::Interrupted));
            }
            match self.forget_page(operation, &pruning, after).await {
                Ok(None) => return (pruned, ForgetEnd::NothingLeft),
                Ok(Some((some, page))) => {
                    pruned += some;
                    after = Some(page);
                }
                Err(error) => return (pruned, ForgetEnd::Halted(Halt::Fault(error))),
            }
            (watch.progress)(pruned);
        }
        (pruned, ForgetEnd::MoreLeft)
    }

    /// Forgets the next runs after those of a page; none where there are none.
    async fn forget_page(
        &self,
        operation: Option<&Operation>,
        pruning: &Pruning,
        after: Option<Prunable>,
    ) -> Result<Option<(u64, Prunable)>> {
        let page = self.insight.view().prunable_runs(pruning.clone(), after, BATCH).await?;
        let Some(page) = page else { return Ok(None) };
        let pruned = self.store.prune_runs(operation, pruning.clone(), page.clone()).await?;
        Ok(Some((pruned, page)))
    }
}

/// How forgetting ended.
enum ForgetEnd {
    NothingLeft,
    /// It has done as many transactions as it was allowed.
    MoreLeft,
    Halted(Halt),
}
