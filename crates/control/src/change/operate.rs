//! Doing what was asked for: chunks are read and decided while the one before is written.
//!
//! A fault of the database ends the operation there: what was reached stands, what was not is untouched, and the same request
//! finishes the work.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::key::PartitionKey;
use redrive_core::refusal::{Reason, Refused};
use redrive_store::{Decided, Operation, Outcome};

use super::select::{Ask, Basis, ByFilter, Candidate, Chunk, Request, Selection};
use crate::audit::Audit;
use crate::error::Result;
use crate::plane::ControlPlane;
use crate::shape::{Failed, Halt, Report};

/// How often a partition that another caller changed first is looked at again.
const MAX_CONFLICT_RETRIES: u32 = 3;

/// The caller's side of an operation: it can stop it between two chunks, and is told how far it is.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a callback has nothing to show")]
pub struct Watch<'a> {
    pub cancelled: &'a AtomicBool,
    /// Called with the number of partitions that have been dealt with.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Ends a count once more than this many changes are known.
    pub stop_after: Option<u64>,
}

/// A partition whose change is decided and not yet written.
struct PendingAsk {
    key: PartitionKey,
    ask: Ask,
    basis: Basis,
}

/// A chunk ready to be written.
struct PreparedChunk {
    matched: usize,
    skipped: Vec<(PartitionKey, Refused)>,
    changes: Changes,
}

/// Partitions to be made, and changes of partitions that are there.
#[derive(Default)]
struct Changes {
    new: Vec<Candidate>,
    pending: Vec<PendingAsk>,
    decided: Decided,
}

impl ControlPlane {
    /// Does what was asked for without counting it first. An end before its time is in the report.
    pub async fn operate(&self, request: &Request, watch: Watch<'_>) -> Result<Report> {
        let Request { verb, filter, audit } = request;
        filter.check_for_change(self.insight.bounds())?;
        let selection = ByFilter::new(&self.insight, *verb, filter);
        let operation = self.operation(audit, filter, &verb.flags(audit));
        self.work_through(selection, audit, operation, Report::new(verb.name(), false), watch).await
    }

    /// Changes everything that a selection gives, and adds it to the report.
    pub(super) async fn work_through(
        &self,
        mut selection: impl Selection,
        audit: &Audit,
        operation: Operation,
        mut report: Report,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let mut ready = self.prepare(selection.next().await?, audit).await?;
        while ready.matched > 0 {
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            let next = async { self.prepare(selection.next().await?, audit).await };
            let (done, next) = tokio::join!(self.carry_out(ready, audit, &operation, &mut report), next);
            (watch.progress)(report.matched);
            ready = match done.and(next) {
                Ok(ready) => ready,
                Err(error) => {
                    report.halt = Some(Halt::Fault(error));
                    break;
                }
            };
        }
        if !report.changed.is_empty() {
            report.op_id = Some(operation.op_id);
            self.log_head().await;
        }
        Ok(report)
    }

    /// Decides about a chunk. Nothing is written.
    async fn prepare(&self, chunk: Chunk, audit: &Audit) -> Result<PreparedChunk> {
        let matched = chunk.candidates.len() + chunk.skipped.len();
        let Chunk { candidates, skipped } = match chunk.candidates.iter().any(Candidate::needs_raw) {
            true => self.insight.judge(chunk, audit).await?.undecided(),
            false => chunk,
        };
        Ok(PreparedChunk { matched, skipped, changes: self.decide(candidates, audit)? })
    }

    fn decide(&self, candidates: Vec<Candidate>, audit: &Audit) -> Result<Changes> {
        let (mut new, mut pending, mut partitions) = (Vec::new(), Vec::new(), Vec::new());
        for candidate in candidates {
            match candidate.basis {
                Basis::Absent => new.push(candidate),
                Basis::Read | Basis::Planned { .. } => {
                    let Candidate { partition, ask, basis } = candidate;
                    pending.push(PendingAsk { key: partition.state.key.clone(), ask, basis });
                    partitions.push(partition);
                }
            }
        }
        let items = partitions.into_iter().zip(&pending).map(|(partition, PendingAsk { key, ask, .. })| {
            tracing::trace!(%key, "applied");
            (partition, self.insight.event(key, ask, audit))
        });
        let decided = self.store.decide(items.collect())?;
        Ok(Changes { new, pending, decided })
    }

    /// Writes a chunk, and looks again at what another caller changed first.
    async fn carry_out(
        &self,
        ready: PreparedChunk,
        audit: &Audit,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<()> {
        report.matched += u64::try_from(ready.matched).unwrap_or(0);
        for (key, refused) in ready.skipped {
            report.skip(key, refused);
        }
        let mut changes = ready.changes;
        for _ in 0..MAX_CONFLICT_RETRIES {
            let mut overtaken = self.make(changes.new, operation, report).await?;
            overtaken.extend(self.write(changes.pending, changes.decided, operation, report).await?);
            if overtaken.is_empty() {
                return Ok(());
            }
            changes = self.decide(overtaken, audit)?;
        }
        let new = changes.new.into_iter().map(|candidate| candidate.partition.state.key);
        for key in new.chain(changes.pending.into_iter().map(|pending| pending.key)) {
            let error = "another caller keeps changing it; run the command again".to_owned();
            report.failed.push(Failed { key, error });
        }
        Ok(())
    }

    /// Makes partitions that are not there; gives back those that another caller made first.
    async fn make(&self, new: Vec<Candidate>, operation: &Operation, report: &mut Report) -> Result<Vec<Candidate>> {
        if new.is_empty() {
            return Ok(vec![]);
        }
        let partitions = new.iter().map(|candidate| candidate.partition.clone()).collect();
        let mut overtaken = Vec::new();
        for (candidate, made) in new.into_iter().zip(self.store.enqueue(Some(operation), partitions).await?) {
            match made {
                true => report.change(None, &candidate.partition),
                false => overtaken.push(candidate),
            }
        }
        let keys = overtaken.iter().map(|candidate| candidate.key().clone()).collect();
        let found = self.insight.view().partitions_of(keys).await?;
        let as_found = |(candidate, found): (Candidate, Option<_>)| match found {
            Some(partition) => Candidate { partition, basis: Basis::Read, ..candidate },
            None => candidate,
        };
        Ok(overtaken.into_iter().zip(found).map(as_found).collect())
    }

    /// Writes changes; gives back what another caller changed first, as it is now.
    async fn write(
        &self,
        pending: Vec<PendingAsk>,
        decided: Decided,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<Vec<Candidate>> {
        let outcomes = self.store.write(operation, decided).await?;
        let mut overtaken = Vec::new();
        for (outcome, PendingAsk { key, ask, basis }) in outcomes.into_iter().zip(pending) {
            match (outcome, basis) {
                (Outcome::Changed { before, after }, _) => report.change(Some(&before), &after),
                (Outcome::Refused(refused), _) => report.skip(key, refused),
                (Outcome::Overtaken(_), Basis::Planned { .. }) => {
                    report.skip(key, Refused::Rule(Reason::ChangedSincePlan));
                }
                (Outcome::Overtaken(now), Basis::Read | Basis::Absent) => {
                    overtaken.push(Candidate { partition: *now, ask, basis });
                }
            }
        }
        Ok(overtaken)
    }
}
