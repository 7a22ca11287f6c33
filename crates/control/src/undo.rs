//! Undo: puts back what an operation changed, where nothing has happened since, as an operation of its own.

use redrive_core::id::OpId;
use redrive_core::partition::{Standing, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_store::AuditedChange;
use serde_json::json;

use crate::error::{Error, Result};
use crate::operate::{Candidate, Chunk, Deed, Selection};
use crate::plane::ControlPlane;
use crate::request::{Order, Watch};
use crate::shape::Report;

const CHUNK: u32 = 1000;

struct ByOperation<'a> {
    plane: &'a ControlPlane,
    op_id: OpId,
    after: i64,
}

impl Selection for ByOperation<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let view = self.plane.view();
        let changes = view.changes(self.op_id, self.after, CHUNK).await?;
        if let Some((seq, _)) = changes.last() {
            self.after = *seq;
        }
        let keys = changes.iter().map(|(_, change)| change.key.clone()).collect();
        let mut chunk = Chunk::default();
        for ((_, change), found) in changes.into_iter().zip(view.partitions_of(keys).await?) {
            match found {
                Some(partition) => {
                    let revert = Some((standing_before(&change), change.after.version));
                    chunk.candidates.push(Candidate { partition, revert, pinned: false });
                }
                None => chunk.skipped.push((change.key, Refused::Rule(Reason::ChangedSincePlan))),
            }
        }
        Ok(chunk)
    }
}

/// What a change is put back to. A partition that the operation made is never deleted; it leaves the queue.
fn standing_before(change: &AuditedChange) -> Standing {
    change.before.clone().unwrap_or_else(|| Standing { status: Status::Pending, wanted: None, ..change.after.clone() })
}

impl ControlPlane {
    /// How many partitions an operation changed.
    pub async fn changes_of(&self, op_id: OpId) -> Result<u64> {
        let absent = || Error::NoOperation(op_id.to_string());
        self.view().operation(op_id).await?.ok_or_else(absent)?;
        let (mut count, mut after) = (0, 0);
        loop {
            let changes = self.view().changes(op_id, after, 10_000).await?;
            let Some((seq, _)) = changes.last() else { return Ok(count) };
            (after, count) = (*seq, count + u64::try_from(changes.len()).unwrap_or(0));
        }
    }

    pub async fn undo(&self, op_id: OpId, order: &Order, watch: Watch<'_>) -> Result<Report> {
        let absent = || Error::NoOperation(op_id.to_string());
        self.view().operation(op_id).await?.ok_or_else(absent)?;
        let filters = json!({"operation": op_id}).to_string();
        let operation = self.ordered(order, filters, order.flags());
        let selection = ByOperation { plane: self, op_id, after: 0 };
        self.work_through(selection, Deed::Undo, operation, order.dry_run, watch).await
    }
}
