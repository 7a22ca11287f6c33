//! Retention: forgetting jobs and uploads that ended long ago, in small transactions.

use redrive_core::id::OpId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
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
/// How far a dry run counts.
const COUNTED: u32 = 1_000_000;

/// What pruning by hand did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    pub op_id: Option<OpId>,
    pub dry_run: bool,
    pub ended_before: Timestamp,
    pub pruned: u64,
}

impl Insight {
    /// Says how many jobs would be forgotten, counted up to a million.
    pub async fn foresee_prune(&self, categories: Option<Vec<String>>, ended_before: Timestamp) -> Result<PruneReport> {
        let pruned = self.view().prunable_runs(Workload::Process, categories, ended_before, COUNTED).await?;
        Ok(PruneReport { op_id: None, dry_run: true, ended_before, pruned })
    }

    /// How many jobs and uploads the sections keep no longer.
    pub(crate) async fn prunable_by_sections(&self) -> Result<u64> {
        let mut prunable = 0;
        for (categories, ended_before) in self.kept_no_longer() {
            prunable += self.view().prunable_runs(Workload::Process, Some(categories), ended_before, COUNTED).await?;
        }
        if let Some(ended_before) = self.uploads_kept_since() {
            prunable += self.view().prunable_runs(Workload::Ingest, None, ended_before, COUNTED).await?;
        }
        Ok(prunable)
    }

    /// Since when uploads that ended are kept; none where all are.
    fn uploads_kept_since(&self) -> Option<Timestamp> {
        self.uploads_kept().map(|keep| self.now().saturating_sub(keep))
    }

    /// The categories whose section does not keep everything, and since when it keeps what ended.
    fn kept_no_longer(&self) -> Vec<(Vec<String>, Timestamp)> {
        let now = self.now();
        let kept = self.queues().iter().filter_map(|queue| Some((queue.categories.clone(), queue.keep?)));
        kept.map(|(categories, keep)| (categories, now.saturating_sub(keep))).collect()
    }
}

impl ControlPlane {
    /// Forgets jobs that ended before a moment. What was forgotten stays so when a later transaction fails.
    pub async fn prune(
        &self,
        categories: Option<Vec<String>>,
        ended_before: Timestamp,
        audit: &Audit,
        mut progress: impl FnMut(u64),
    ) -> Result<PruneReport> {
        let filters = json!({"category": categories, "ended_before": ended_before});
        let operation = self.operation(audit, &filters, &audit.flags());
        let mut pruned = 0;
        loop {
            let categories = categories.clone();
            let next =
                self.store.prune_runs(Some(&operation), Workload::Process, categories, ended_before, BATCH).await?;
            pruned += next;
            progress(pruned);
            if next == 0 {
                break;
            }
        }
        let op_id = (pruned > 0).then_some(operation.op_id);
        Ok(PruneReport { op_id, dry_run: false, ended_before, pruned })
    }

    /// Forgets what the sections keep no longer.
    pub(crate) async fn prune_by_sections(&self) -> Result<u64> {
        let mut pruned = 0;
        for (categories, ended_before) in self.insight.kept_no_longer() {
            for _ in 0..BATCHES {
                let categories = Some(categories.clone());
                let next = self.store.prune_runs(None, Workload::Process, categories, ended_before, BATCH).await?;
                pruned += next;
                if next == 0 {
                    break;
                }
            }
        }
        if let Some(ended_before) = self.insight.uploads_kept_since() {
            pruned += self.store.prune_runs(None, Workload::Ingest, None, ended_before, BATCH).await?;
        }
        // Also what an earlier tick began, whatever the section says now.
        self.store.forget_uploads(BATCHES).await?;
        Ok(pruned)
    }
}
