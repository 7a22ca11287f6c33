//! The one way in which many partitions change: selected in key order, decided one by one, written in chunks, each chunk
//! one transaction with its audit rows.
//!
//! The next chunk is read and decided while the one before is written. A fault of the database ends it there: what was reached
//! stands, what was not is untouched, and the same command finishes the work.

use std::sync::atomic::Ordering;

use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, ControlEvent, Event, Partition, Standing};
use redrive_core::refusal::{Reason, Refused};
use redrive_store::{Decided, Operation, Outcome, Page};

use crate::error::Result;
use crate::plane::ControlPlane;
use crate::request::{Order, Request, Verb, Watch};
use crate::shape::{Failed, Halt, Report};

/// How often one that was overtaken is looked at again.
const LOOKS: u32 = 3;
/// From how many days of one query on the sink is asked once for all of them.
const ASK_AT_ONCE: usize = 4;

/// A partition that an operation is about, and for an undo what it is put back to.
pub(crate) struct Candidate {
    pub(crate) partition: Partition,
    pub(crate) revert: Option<(Standing, u64)>,
    /// Only as it is here: a plan means one version.
    pub(crate) pinned: bool,
}

impl From<Partition> for Candidate {
    fn from(partition: Partition) -> Self {
        Self { partition, revert: None, pinned: false }
    }
}

/// What a selection gives at a time.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) candidates: Vec<Candidate>,
    /// What was left out already, with the reason.
    pub(crate) skipped: Vec<(PartitionKey, Refused)>,
}

/// Who was asked about, and for an undo what it is put back to.
struct Asked {
    key: PartitionKey,
    revert: Option<(Standing, u64)>,
    pinned: bool,
}

/// A chunk about which it is decided, or for a dry run its candidates.
struct Ready {
    matched: usize,
    skipped: Vec<(PartitionKey, Refused)>,
    decided: std::result::Result<(Vec<Asked>, Decided), Vec<Candidate>>,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.matched == 0
    }
}

/// Where an operation's partitions come from, a chunk at a time, in key order.
pub(crate) trait Selection {
    fn next(&mut self) -> impl Future<Output = Result<Chunk>> + Send;
}

/// What is done to each.
#[derive(Clone, Copy)]
pub(crate) enum Deed<'a> {
    Verb(Verb, &'a Order),
    Undo,
}

/// Everything a filter means.
pub(crate) struct ByFilter<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) page: Page,
    pub(crate) done: bool,
}

impl Selection for ByFilter<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        if self.done {
            return Ok(Chunk::default());
        }
        let found = self.plane.view().partitions(self.page.clone()).await?;
        self.done = found.len() < usize::try_from(self.page.limit).unwrap_or(usize::MAX);
        self.page.after = found.last().map(|last| last.state.key.clone());
        Ok(Chunk { candidates: found.into_iter().map(Candidate::from).collect(), skipped: vec![] })
    }
}

impl ControlPlane {
    /// Does what was asked for, or with `dry_run` says what it would do. An end before its time is in the report.
    pub async fn operate(&self, request: &Request, watch: Watch<'_>) -> Result<Report> {
        request.filter.check_for_change(self.insight.bounds())?;
        let selection = ByFilter { plane: self, page: request.verb.page(&request.filter), done: false };
        self.work_through(
            selection,
            Deed::Verb(request.verb, &request.order),
            self.operation_of(request.verb, &request.filter, &request.order),
            request.order.dry_run,
            watch,
        )
        .await
    }

    pub(crate) fn ordered(&self, order: &Order, filters: String, flags: serde_json::Value) -> Operation {
        self.operation(&order.command, filters, flags.to_string(), order.reason.clone())
    }

    pub(crate) fn operation_of(&self, verb: Verb, filter: &Filter, order: &Order) -> Operation {
        let filters = serde_json::to_string(filter).unwrap_or_default();
        self.ordered(order, filters, order.flags_of(verb))
    }

    pub(crate) async fn work_through(
        &self,
        mut selection: impl Selection,
        deed: Deed<'_>,
        operation: Operation,
        dry_run: bool,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let name = match deed {
            Deed::Verb(verb, _) => verb.name(),
            Deed::Undo => "undo",
        };
        let mut report = Report::new(name, dry_run);
        let mut ready = self.prepare(selection.next().await?, deed, dry_run).await?;
        while !ready.is_empty() {
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            let next = async { self.prepare(selection.next().await?, deed, dry_run).await };
            let (done, next) = tokio::join!(self.carry_out(ready, deed, &operation, &mut report), next);
            (watch.progress)(report.matched);
            if let Err(error) = done {
                report.halt = Some(Halt::Fault(error));
                break;
            }
            let changed = u64::try_from(report.changed.len()).unwrap_or(u64::MAX);
            if watch.stop_after.is_some_and(|enough| changed > enough) {
                break;
            }
            ready = match next {
                Ok(ready) => ready,
                Err(error) => {
                    report.halt = Some(Halt::Fault(error));
                    break;
                }
            };
        }
        if !report.changed.is_empty() && !dry_run {
            report.op_id = Some(operation.op_id);
            self.tell_head().await;
        }
        Ok(report)
    }

    /// Writes the chain's head to the log, so that cutting off its tail shows.
    pub(crate) async fn tell_head(&self) {
        match self.view().audit_head().await {
            Ok(head) => tracing::info!(seq = head.seq, hash = head.hex(), "audit head"),
            Err(error) => tracing::warn!(%error, "the audit head could not be read"),
        }
    }

    /// Decides about a chunk: what is left out, and what becomes of the rest. Nothing is written.
    async fn prepare(&self, chunk: Chunk, deed: Deed<'_>, dry_run: bool) -> Result<Ready> {
        let Chunk { mut candidates, mut skipped } = chunk;
        let matched = candidates.len() + skipped.len();
        if let Deed::Verb(Verb::Retry { allow_missing_raw: false, .. }, _) = deed {
            candidates = self.with_raw(candidates, deed, &mut skipped).await?;
        }
        let decided = match dry_run {
            true => Err(candidates),
            false => Ok(self.decide(candidates, deed)?),
        };
        Ok(Ready { matched, skipped, decided })
    }

    fn decide(&self, candidates: Vec<Candidate>, deed: Deed<'_>) -> Result<(Vec<Asked>, Decided)> {
        let mut asked = Vec::with_capacity(candidates.len());
        let mut partitions = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let Candidate { partition, revert, pinned } = candidate;
            asked.push(Asked { key: partition.state.key.clone(), revert, pinned });
            partitions.push(partition);
        }
        let items = partitions.into_iter().zip(&asked).map(|(partition, asked)| {
            let event = self.event(&partition, asked.revert.as_ref(), deed);
            (partition, event)
        });
        let decided = self.store.decide(items.collect())?;
        Ok((asked, decided))
    }

    /// Writes a chunk, and looks again at what was overtaken.
    async fn carry_out(&self, ready: Ready, deed: Deed<'_>, operation: &Operation, report: &mut Report) -> Result<()> {
        report.matched += u64::try_from(ready.matched).unwrap_or(0);
        for (key, refused) in ready.skipped {
            report.skip(key, refused);
        }
        let (mut asked, mut decided) = match ready.decided {
            Ok(decided) => decided,
            Err(candidates) => {
                self.foresee(&candidates, deed, report);
                return Ok(());
            }
        };
        for _ in 0..LOOKS {
            let overtaken = self.write(asked, decided, operation, report).await?;
            if overtaken.is_empty() {
                return Ok(());
            }
            (asked, decided) = self.decide(overtaken, deed)?;
        }
        for Asked { key, .. } in asked {
            let error = "it is being changed by somebody else; run the command again".to_owned();
            report.failed.push(Failed { key, error });
        }
        Ok(())
    }

    /// Commits what can be; gives back what was overtaken, as it is now.
    async fn write(
        &self,
        asked: Vec<Asked>,
        decided: Decided,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<Vec<Candidate>> {
        let outcomes = self.store.write(operation, decided).await?;
        let mut overtaken = Vec::new();
        for (outcome, Asked { key, revert, pinned }) in outcomes.into_iter().zip(asked) {
            match outcome {
                Outcome::Changed { before, after } => report.change(Some(&before), &after),
                Outcome::Refused(refused) => report.skip(key, refused),
                Outcome::Overtaken(_) if pinned => report.skip(key, Refused::Rule(Reason::ChangedSincePlan)),
                Outcome::Overtaken(now) => overtaken.push(Candidate { partition: *now, revert, pinned }),
            }
        }
        Ok(overtaken)
    }

    fn foresee(&self, candidates: &[Candidate], deed: Deed<'_>, report: &mut Report) {
        for candidate in candidates {
            let event = self.event(&candidate.partition, candidate.revert.as_ref(), deed);
            match partition::apply(&candidate.partition, Event::Control(event), self.now()) {
                Ok(change) => report.change(Some(&candidate.partition), &change.after),
                Err(refused) => report.skip(candidate.partition.state.key.clone(), refused),
            }
        }
    }

    fn event<'a>(
        &'a self,
        partition: &Partition,
        revert: Option<&'a (Standing, u64)>,
        deed: Deed<'a>,
    ) -> ControlEvent<'a> {
        let rules = self.insight.sources().of(&partition.state.key.source);
        let (policy, by) = (&rules.retry, self.actor.as_str());
        if let Some((to, from_version)) = revert {
            return ControlEvent::Revert { to, from_version: *from_version };
        }
        let Deed::Verb(verb, order) = deed else { unreachable!("an undo brings a standing for every candidate") };
        match verb {
            Verb::Retry { clear_terminal, stale, .. } => ControlEvent::Retry { policy, clear_terminal, stale },
            Verb::Reprocess => ControlEvent::Reprocess,
            Verb::MarkTerminal => {
                ControlEvent::MarkTerminal { by, why: order.reason.as_deref(), threshold: rules.terminal_threshold() }
            }
            Verb::ClearTerminal => ControlEvent::ClearTerminal,
            Verb::Pause => ControlEvent::Pause { by, why: order.reason.as_deref() },
            Verb::Resume => ControlEvent::Resume,
        }
    }

    /// Leaves out what would change but has left nothing in the raw sink.
    async fn with_raw(
        &self,
        candidates: Vec<Candidate>,
        deed: Deed<'_>,
        skipped: &mut Vec<(PartitionKey, Refused)>,
    ) -> Result<Vec<Candidate>> {
        let now = self.now();
        let mut there = Vec::with_capacity(candidates.len());
        for query in candidates.chunk_by(|a, b| same_query(&a.partition.state.key, &b.partition.state.key)) {
            let changing: Vec<bool> = query
                .iter()
                .map(|candidate| {
                    let event = self.event(&candidate.partition, None, deed);
                    partition::apply(&candidate.partition, Event::Control(event), now).is_ok()
                })
                .collect();
            let days = match changing.iter().filter(|changing| **changing).count() {
                many if many >= ASK_AT_ONCE => {
                    Some(self.insight.raw.view().await?.days(&query[0].partition.state.key).await?)
                }
                _ => None,
            };
            for (candidate, changing) in query.iter().zip(changing) {
                let key = &candidate.partition.state.key;
                there.push(match &days {
                    _ if !changing => true,
                    Some(days) => days.contains(&key.logical_date),
                    None => self.insight.raw.view().await?.has_any(key).await?,
                });
            }
        }
        let mut kept = Vec::with_capacity(candidates.len());
        for (candidate, there) in candidates.into_iter().zip(there) {
            if there {
                kept.push(candidate);
            } else {
                skipped.push((candidate.partition.state.key, Refused::Rule(Reason::NoRawPartition)));
            }
        }
        Ok(kept)
    }
}

/// Whether two partitions differ in their day alone.
pub(crate) fn same_query(a: &PartitionKey, b: &PartitionKey) -> bool {
    (&a.source, &a.customer_id, &a.query_name) == (&b.source, &b.customer_id, &b.query_name)
}
