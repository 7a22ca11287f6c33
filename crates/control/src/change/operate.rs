//! Doing what was asked for: while a chunk is written, the one before it is reported and the one after it read and decided.
//!
//! A fault of the database ends the operation there: what was reached stands, what was not is untouched, and the same request
//! finishes the work.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::refusal::{Reason, Refused};
use redrive_store::{Committed, Decided, DecidedRuns, Operation, Outcome, RunChangeOutcome};

use super::ask::PlanAsk;
use super::beside::Beside;
use super::select::{Ask, Basis, ByFilter, Candidate, Chunk, Request, RunAsk, Selection, SubjectAsk};
use crate::audit::Audit;
use crate::error::Result;
use crate::plane::ControlPlane;
use crate::shape::{Failed, Halt, Report, SubjectRef, SubjectShape};

/// How often a partition that another caller changed first is looked at again.
const MAX_CONFLICT_RETRIES: u32 = 3;

/// The caller's side of an operation: the caller can stop it between two chunks, and hears how far it is.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a callback has nothing to show")]
pub struct Watch<'a> {
    pub cancelled: &'a AtomicBool,
    /// Called with the number of partitions that have been dealt with.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Ends a count once more than this many changes are known.
    pub stop_after: Option<u64>,
}

/// A partition or a run whose change is decided and not yet written: what it is known by, and what is asked.
struct PendingAsk<K, A> {
    key: K,
    ask: A,
    basis: Basis,
}

type PendingPartition = PendingAsk<PartitionKey, Ask>;
type PendingRun = PendingAsk<RunId, RunAsk>;

/// A chunk ready to be written.
struct PreparedChunk {
    matched: usize,
    skipped: Vec<(SubjectShape, Refused)>,
    changes: Changes,
}

/// Partitions to be made, and changes of partitions and runs that are there.
#[derive(Default)]
struct Changes {
    new: Vec<(Partition, Ask)>,
    partitions: Vec<PendingPartition>,
    decided: Decided,
    runs: Vec<PendingRun>,
    decided_runs: DecidedRuns,
}

/// A chunk that was written and is not in the report yet.
struct WrittenChunk {
    matched: usize,
    skipped: Vec<(SubjectShape, Refused)>,
    changes: WrittenChanges,
}

struct WrittenChanges {
    /// Partitions to be made, and whether this operation made them.
    new: Vec<((Partition, Ask), bool)>,
    partitions: Vec<PendingPartition>,
    /// What became of these.
    committed: Committed,
    runs: Vec<(PendingRun, RunChangeOutcome)>,
}

impl ControlPlane {
    /// Does what was asked for; what has no limit is not counted first. An end before its time is in the report.
    pub async fn operate(&self, request: &Request, watch: Watch<'_>) -> Result<Report> {
        let Request { verb, filter, audit, limit } = request;
        if limit.is_some() {
            let ask = PlanAsk::Partitions(request.clone());
            let (counted, plan) = self.insight.plan(&ask, watch).await?;
            return match counted.halt {
                Some(_) => Ok(counted),
                None => self.operate_as_counted(&ask, counted, plan, watch).await,
            };
        }
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
        let mut written = None;
        while ready.matched > 0 {
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            let meanwhile = async {
                self.settle(written.take(), audit, &operation, &mut report).await?;
                (watch.progress)(report.matched);
                self.prepare(selection.next().await?, audit).await
            };
            let writing = Beside::start(self.clone().write_chunk(ready, operation.clone()));
            let (wrote, next) = tokio::join!(writing, meanwhile);
            let next = match wrote {
                Ok(chunk) => {
                    written = Some(chunk);
                    next
                }
                Err(error) => Err(error),
            };
            ready = match next {
                Ok(next) => next,
                Err(error) => {
                    report.halt = Some(Halt::Fault(error));
                    break;
                }
            };
        }
        if let Err(error) = self.settle(written, audit, &operation, &mut report).await {
            report.halt = Some(Halt::Fault(error));
        }
        (watch.progress)(report.matched);
        if report.count_changed() > 0 {
            report.op_id = Some(operation.op_id);
            self.log_head().await;
        }
        Ok(report)
    }

    /// Decides about a chunk. Nothing is written.
    async fn prepare(&self, chunk: Chunk, audit: &Audit) -> Result<PreparedChunk> {
        let matched = chunk.candidates.len() + chunk.skipped.len();
        let Chunk { candidates, skipped } = match chunk.candidates.iter().any(Candidate::needs_raw) {
            true => self.insight.judge(chunk, audit, u64::MAX).await?.undecided(),
            false => chunk,
        };
        Ok(PreparedChunk { matched, skipped, changes: self.decide(candidates, audit) })
    }

    fn decide(&self, candidates: Vec<Candidate>, audit: &Audit) -> Changes {
        let mut changes = Changes::default();
        let (mut partitions, mut runs) = (Vec::new(), Vec::new());
        for Candidate { asked, basis } in candidates {
            match (asked, basis) {
                (SubjectAsk::Partition(partition, ask), Basis::Absent) => changes.new.push((partition, ask)),
                (SubjectAsk::Partition(partition, ask), Basis::Read | Basis::Planned { .. }) => {
                    changes.partitions.push(PendingAsk { key: partition.state.key.clone(), ask, basis });
                    partitions.push(partition);
                }
                (SubjectAsk::Run(run, ask), _) => {
                    let event = ask.event(audit);
                    changes.runs.push(PendingAsk { key: run.run_id, ask, basis });
                    runs.push((run, event));
                }
            }
        }
        let items = partitions
            .into_iter()
            .zip(&changes.partitions)
            .map(|(partition, PendingAsk { key, ask, .. })| (partition, self.insight.event(key, ask, audit)));
        changes.decided = self.store.decide(items);
        changes.decided_runs = self.store.decide_runs(runs);
        changes
    }

    async fn write_chunk(self, ready: PreparedChunk, operation: Operation) -> Result<WrittenChunk> {
        let PreparedChunk { matched, skipped, changes } = ready;
        Ok(WrittenChunk { matched, skipped, changes: self.write(changes, &operation).await? })
    }

    /// Makes the partitions that are not there, and changes what is still as it was read.
    async fn write(&self, changes: Changes, operation: &Operation) -> Result<WrittenChanges> {
        let Changes { new, partitions, decided, runs, decided_runs } = changes;
        let made = match new.is_empty() {
            true => vec![],
            false => {
                let wanted = new.iter().map(|(partition, _)| partition.clone()).collect();
                self.store.enqueue(operation, wanted).await?
            }
        };
        let committed = match partitions.is_empty() {
            true => Committed::default(),
            false => self.store.write(operation, decided).await?,
        };
        let run_outcomes = match runs.is_empty() {
            true => vec![],
            false => self.store.write_runs(operation, decided_runs).await?,
        };
        Ok(WrittenChanges {
            new: new.into_iter().zip(made).collect(),
            partitions,
            committed,
            runs: runs.into_iter().zip(run_outcomes).collect(),
        })
    }

    /// Adds a chunk to the report, and looks again at what another caller changed first.
    async fn settle(
        &self,
        written: Option<WrittenChunk>,
        audit: &Audit,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<()> {
        let Some(WrittenChunk { matched, skipped, mut changes }) = written else { return Ok(()) };
        report.matched += u64::try_from(matched).unwrap_or(0);
        skipped.iter().for_each(|(subject, refused)| report.skip(subject.into(), *refused));
        for _ in 1..MAX_CONFLICT_RETRIES {
            let overtaken = self.report_on(changes, report).await?;
            if overtaken.is_empty() {
                return Ok(());
            }
            changes = self.write(self.decide(overtaken, audit), operation).await?;
        }
        for candidate in self.report_on(changes, report).await? {
            let error = "another caller keeps changing it; run the command again".to_owned();
            report.failed.push(Failed { subject: candidate.subject().into(), error });
        }
        Ok(())
    }

    /// Adds what was written to the report; gives back what another caller changed first, as it is now.
    async fn report_on(&self, written: WrittenChanges, report: &mut Report) -> Result<Vec<Candidate>> {
        let mut made_by_another = Vec::new();
        for ((partition, ask), made) in written.new {
            match made {
                true => report.change(None, &partition),
                false => made_by_another.push((partition, ask)),
            }
        }
        let mut overtaken = self.as_found(made_by_another).await?;
        for (PendingAsk { key, ask, basis }, outcome) in
            written.partitions.into_iter().zip(written.committed.outcomes())
        {
            match (outcome, basis) {
                (Outcome::Changed { before, after }, _) => report.change(Some(&before), &after),
                (Outcome::Refused(refused), _) => report.skip(SubjectRef::Partition(&key), refused),
                (Outcome::Overtaken(_), Basis::Planned { .. }) => {
                    report.skip(SubjectRef::Partition(&key), Refused::Rule(Reason::ChangedSincePlan));
                }
                (Outcome::Overtaken(now), Basis::Read | Basis::Absent) => {
                    overtaken.push(Candidate::partition(*now, ask, basis));
                }
            }
        }
        for (PendingAsk { key, ask, basis }, outcome) in written.runs {
            match (outcome, basis) {
                (RunChangeOutcome::Changed { before, after }, _) => report.change_run(&before, &after),
                (RunChangeOutcome::Refused(refused), _) => report.skip(SubjectRef::Run(key), refused),
                (RunChangeOutcome::Overtaken(_), Basis::Planned { .. }) => {
                    report.skip(SubjectRef::Run(key), Refused::Rule(Reason::ChangedSincePlan));
                }
                (RunChangeOutcome::Overtaken(now), Basis::Read | Basis::Absent) => {
                    overtaken.push(Candidate::run(*now, ask, basis));
                }
            }
        }
        Ok(overtaken)
    }

    /// Partitions that were to be made, as another caller has made them.
    async fn as_found(&self, candidates: Vec<(Partition, Ask)>) -> Result<Vec<Candidate>> {
        if candidates.is_empty() {
            return Ok(vec![]);
        }
        let keys = candidates.iter().map(|(partition, _)| partition.state.key.clone()).collect();
        let found = self.insight.view().partitions_of(keys).await?;
        let as_found = |((partition, ask), found): ((Partition, Ask), Option<Partition>)| match found {
            Some(partition) => Candidate::partition(partition, ask, Basis::Read),
            None => Candidate::partition(partition, ask, Basis::Absent),
        };
        Ok(candidates.into_iter().zip(found).map(as_found).collect())
    }
}
