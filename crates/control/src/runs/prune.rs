//! Retention: forgetting jobs and uploads that ended long ago, in small transactions.

use redrive_core::id::OpId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use redrive_store::{Operation, Prunable, Pruning};
use serde::Serialize;
use serde_json::json;

use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::plane::ControlPlane;

/// How many runs one transaction forgets.
const BATCH: u32 = 500;
/// How many transactions a tick of the daemon spends on one section; the next tick goes on.
const BATCHES: u32 = 200;
/// How many runs are found at once by one that only counts.
const PAGE: u32 = 5000;
/// How far a dry run counts.
const COUNTED: u64 = 1_000_000;

/// What pruning by hand did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    pub op_id: Option<OpId>,
    pub dry_run: bool,
    pub ended_before: Timestamp,
    pub pruned: u64,
}

fn jobs(categories: Option<Vec<String>>, ended_before: Timestamp) -> Pruning {
    Pruning { workload: Workload::Process, categories, ended_before }
}

impl Insight {
    /// Says how many jobs would be forgotten, counted up to a million.
    pub async fn foresee_prune(&self, categories: Option<Vec<String>>, ended_before: Timestamp) -> Result<PruneReport> {
        let pruned = self.count_prunable(jobs(categories, ended_before)).await?;
        Ok(PruneReport { op_id: None, dry_run: true, ended_before, pruned })
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
    /// Forgets jobs that ended before a moment. What was forgotten stays so when a later transaction fails. The audit trail has how many
    /// were `counted` beforehand.
    pub async fn prune(
        &self,
        categories: Option<Vec<String>>,
        ended_before: Timestamp,
        counted: u64,
        audit: &Audit,
        progress: impl FnMut(u64),
    ) -> Result<PruneReport> {
        let filters = json!({"category": categories, "ended_before": ended_before, "counted": counted});
        let operation = self.operation(audit, &filters, &audit.flags());
        let pruned = self.forget(Some(&operation), jobs(categories, ended_before), u32::MAX, progress).await?;
        let op_id = (pruned > 0).then_some(operation.op_id);
        Ok(PruneReport { op_id, dry_run: false, ended_before, pruned })
    }

    /// Forgets what the sections keep no longer.
    pub(crate) async fn prune_by_sections(&self) -> Result<u64> {
        let mut pruned = 0;
        for pruning in self.insight.kept_no_longer() {
            pruned += self.forget(None, pruning, BATCHES, |_| {}).await?;
        }
        if let Some(pruning) = self.insight.uploads_kept_no_longer() {
            pruned += self.forget(None, pruning, 1, |_| {}).await?;
        }
        // Also what an earlier tick began, whatever the section says now.
        self.store.forget_uploads(BATCHES).await?;
        Ok(pruned)
    }

    /// Forgets runs in at most so many transactions; gives how many.
    async fn forget(
        &self,
        operation: Option<&Operation>,
        pruning: Pruning,
        batches: u32,
        mut progress: impl FnMut(u64),
    ) -> Result<u64> {
        let (mut pruned, mut after) = (0, None::<Prunable>);
        for _ in 0..batches {
            let Some(page) = self.insight.view().prunable_runs(pruning.clone(), after, BATCH).await? else { break };
            pruned += self.store.prune_runs(operation, pruning.clone(), page.clone()).await?;
            progress(pruned);
            after = Some(page);
        }
        Ok(pruned)
    }
}
