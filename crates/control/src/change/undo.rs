//! Undo: puts back what an operation changed, where nothing has happened since, as an operation of its own.

use redrive_core::count;
use redrive_core::id::{OpId, RunId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlSnapshot, Status};
use redrive_core::refusal::Reason;
use redrive_core::run::RunSnapshot;
use redrive_store::{AuditedChange, Subject};
use serde_json::json;

use super::operate::Watch;
use super::select::{Ask, Basis, CHUNK, Candidate, Chunk, RunAsk, Selection};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::{Report, SubjectShape};

pub(super) const UNDO: &str = "undo";

/// What an operation changed, as it is now.
pub(super) struct ByOperation<'a> {
    insight: &'a Insight,
    op_id: OpId,
    after: i64,
}

impl Selection for ByOperation<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let stretch = self.insight.view().changes(self.op_id, self.after, CHUNK).await?;
        let Some((seq, _)) = stretch.last() else { return Ok(Chunk::default()) };
        self.after = *seq;
        self.chunk_of(stretch).await
    }
}

impl<'a> ByOperation<'a> {
    pub(super) fn new(insight: &'a Insight, op_id: OpId) -> Self {
        Self { insight, op_id, after: 0 }
    }

    /// Some changes of the operation, as what they changed is now.
    pub(super) async fn chunk_of(&self, stretch: Vec<(i64, AuditedChange)>) -> Result<Chunk> {
        let (mut partitions, mut runs) = (Vec::new(), Vec::new());
        for (_, change) in stretch {
            match &change.subject {
                Subject::Partition(key) => partitions.push((key.clone(), change.snapshots()?)),
                Subject::Run(id) => runs.push((*id, change.run_snapshots()?)),
                // An operation that changed holds changed nothing else, and is put back by `undo_holds`.
                Subject::Hold(id) => {
                    return Err(Error::Plan(format!("operation {} changed hold {id} beside others", self.op_id)));
                }
            }
        }
        let mut chunk = Chunk::default();
        self.add_partitions(partitions, &mut chunk).await?;
        self.add_runs(runs, &mut chunk).await?;
        Ok(chunk)
    }

    async fn add_partitions(
        &self,
        changes: Vec<(PartitionKey, (Option<ControlSnapshot>, ControlSnapshot))>,
        chunk: &mut Chunk,
    ) -> Result<()> {
        let keys = changes.iter().map(|(key, _)| key.clone()).collect();
        let found = self.insight.view().partitions_of(keys).await?;
        for ((key, (before, after)), found) in changes.into_iter().zip(found) {
            match found {
                Some(partition) => {
                    let from_version = after.version;
                    let ask = Ask::Revert { to: before.unwrap_or_else(|| unmade(after)), from_version };
                    chunk.candidates.push(Candidate::partition(partition, ask, Basis::Read));
                }
                None => chunk.skip(SubjectShape::Partition(key), Reason::ChangedSincePlan),
            }
        }
        Ok(())
    }

    async fn add_runs(&self, changes: Vec<(RunId, (RunSnapshot, RunSnapshot))>, chunk: &mut Chunk) -> Result<()> {
        let found = self.insight.view().runs_of(changes.iter().map(|(id, _)| *id).collect()).await?;
        let mut found = found.into_iter().peekable();
        for (run_id, (to, after)) in changes {
            match found.next_if(|run| run.run_id == run_id) {
                Some(run) => {
                    let ask = RunAsk::Revert { to, from_version: after.version };
                    chunk.candidates.push(Candidate::run(run, ask, Basis::Read));
                }
                // It was pruned since.
                None => chunk.skip(SubjectShape::Run { run_id }, Reason::ChangedSincePlan),
            }
        }
        Ok(())
    }
}

/// What a partition that the operation made is put back to. It is not deleted: it leaves the queue.
fn unmade(after: ControlSnapshot) -> ControlSnapshot {
    ControlSnapshot { status: Status::Pending, wanted: None, ..after }
}

impl Insight {
    /// How many partitions, runs or holds an operation changed.
    pub async fn changes_of(&self, op_id: OpId) -> Result<u64> {
        self.check_operation(op_id).await?;
        let (mut count, mut after) = (0, 0);
        loop {
            let changes = self.view().changes(op_id, after, 10_000).await?;
            let Some((seq, _)) = changes.last() else { return Ok(count) };
            (after, count) = (*seq, count + count::of(changes.len()));
        }
    }

    /// What an operation changed, in the plural.
    pub async fn noun_of(&self, op_id: OpId) -> Result<&'static str> {
        let changes = self.view().changes(op_id, 0, 1).await?;
        Ok(match changes.first().map(|(_, change)| &change.subject) {
            Some(Subject::Run(_)) => "runs",
            Some(Subject::Hold(_)) => "holds",
            Some(Subject::Partition(_)) | None => "partitions",
        })
    }

    pub(super) async fn is_of_holds(&self, op_id: OpId) -> Result<bool> {
        let first = self.view().changes(op_id, 0, 1).await?;
        Ok(matches!(first.first().map(|(_, change)| &change.subject), Some(Subject::Hold(_))))
    }

    pub(super) async fn check_operation(&self, op_id: OpId) -> Result<()> {
        self.view().operation(op_id).await?.map(drop).ok_or(Error::NoOperation(op_id))
    }

    /// Says what an undo would put back.
    pub async fn foresee_undo(&self, op_id: OpId, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        self.check_operation(op_id).await?;
        if self.is_of_holds(op_id).await? {
            return self.foresee_undo_holds(op_id, Report::new(UNDO, true)).await;
        }
        let selection = ByOperation::new(self, op_id);
        Ok(self.foresee(UNDO, selection, audit, watch).await?.0)
    }
}

impl ControlPlane {
    pub async fn undo(&self, op_id: OpId, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        self.insight.check_operation(op_id).await?;
        let operation = self.operation(audit, &json!({"operation": op_id}), &audit.flags());
        if self.insight.is_of_holds(op_id).await? {
            return self.undo_holds(op_id, operation, Report::new(UNDO, false)).await;
        }
        let selection = ByOperation::new(&self.insight, op_id);
        self.work_through(selection, audit, operation, Report::new(UNDO, false), watch).await
    }
}
