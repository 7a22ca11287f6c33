//! Undo: puts back what an operation changed, where nothing has happened since, as an operation of its own.

use redrive_core::id::OpId;
use redrive_core::partition::{ControlSnapshot, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_store::AuditedChange;
use serde_json::json;

use super::operate::Watch;
use super::select::{Ask, Basis, CHUNK, Candidate, Chunk, Selection};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::Report;

const UNDO: &str = "undo";

/// What an operation changed, as it is now.
struct ByOperation<'a> {
    insight: &'a Insight,
    op_id: OpId,
    after: i64,
}

impl Selection for ByOperation<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let view = self.insight.view();
        let changes = view.changes(self.op_id, self.after, CHUNK).await?;
        if let Some((seq, _)) = changes.last() {
            self.after = *seq;
        }
        let keys = changes.iter().map(|(_, change)| change.key.clone()).collect();
        let mut chunk = Chunk::default();
        for ((_, change), found) in changes.into_iter().zip(view.partitions_of(keys).await?) {
            match found {
                Some(partition) => {
                    let ask = Ask::Revert { to: before(&change), from_version: change.after.version };
                    chunk.candidates.push(Candidate { partition, ask, basis: Basis::Read });
                }
                None => chunk.skipped.push((change.key, Refused::Rule(Reason::ChangedSincePlan))),
            }
        }
        Ok(chunk)
    }
}

/// What a change is put back to. A partition that the operation made is not deleted: it leaves the queue.
fn before(change: &AuditedChange) -> ControlSnapshot {
    change.before.clone().unwrap_or_else(|| ControlSnapshot {
        status: Status::Pending,
        wanted: None,
        ..change.after.clone()
    })
}

impl Insight {
    /// How many partitions an operation changed.
    pub async fn changes_of(&self, op_id: OpId) -> Result<u64> {
        self.check_operation(op_id).await?;
        let (mut count, mut after) = (0, 0);
        loop {
            let changes = self.view().changes(op_id, after, 10_000).await?;
            let Some((seq, _)) = changes.last() else { return Ok(count) };
            (after, count) = (*seq, count + u64::try_from(changes.len()).unwrap_or(0));
        }
    }

    async fn check_operation(&self, op_id: OpId) -> Result<()> {
        self.view().operation(op_id).await?.map(drop).ok_or(Error::NoOperation(op_id))
    }

    /// Says what an undo would put back.
    pub async fn foresee_undo(&self, op_id: OpId, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        self.check_operation(op_id).await?;
        let selection = ByOperation { insight: self, op_id, after: 0 };
        Ok(self.foresee(UNDO, selection, audit, watch).await?.0)
    }
}

impl ControlPlane {
    pub async fn undo(&self, op_id: OpId, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        self.insight.check_operation(op_id).await?;
        let operation = self.operation(audit, &json!({"operation": op_id}), &audit.flags());
        let selection = ByOperation { insight: &self.insight, op_id, after: 0 };
        self.work_through(selection, audit, operation, Report::new(UNDO, false), watch).await
    }
}
