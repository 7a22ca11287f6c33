//! What an operation would do. Nothing is written, so this needs no more than a view.

use std::sync::atomic::Ordering;

use redrive_core::count;
use redrive_core::partition::{self, Event, Partition};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{self, Run};

use super::operate::Watch;
use super::plan::Foreseen;
use super::select::{Basis, Candidate, Chunk, Selection, SubjectAsk, same_query};
use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Halt, Report, SubjectRef, SubjectShape};

/// From how many days of one query on the raw sink is listed once for all of them.
const LIST_FROM: usize = 4;

impl Insight {
    /// Says what a selection would change, and with which version each of those was seen.
    pub(super) async fn foresee(
        &self,
        name: &'static str,
        mut selection: impl Selection,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<(Report, Foreseen)> {
        let (mut report, mut planned) = (Report::new(name, true), Foreseen::default());
        loop {
            let judged = async { self.judge(selection.next().await?, audit).await };
            let judged = match judged.await {
                Ok(judged) => judged,
                Err(error) if report.matched == 0 => return Err(error),
                Err(error) => {
                    report.halt = Some(Halt::Fault(error));
                    break;
                }
            };
            if judged.matched == 0 {
                break;
            }
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            judged.add_to(&mut report, &mut planned);
            (watch.progress)(report.matched);
            if watch.stop_after.is_some_and(|enough| report.count_changed() > enough) {
                break;
            }
        }
        Ok((report, planned))
    }

    /// Says what the first `limit` changes of a selection would be. What comes after them is counted by the rules alone, and the
    /// raw sink is not asked about it.
    pub(super) async fn foresee_first(
        &self,
        name: &'static str,
        mut selection: impl Selection,
        limit: u64,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<(Report, Foreseen)> {
        let (mut report, mut planned, mut beyond) = (Report::new(name, true), Foreseen::default(), 0);
        loop {
            let chunk = selection.next().await?;
            if chunk.is_empty() {
                break;
            }
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            let (mut left, mut skipped) = (chunk.candidates, chunk.skipped);
            while !left.is_empty() || !skipped.is_empty() {
                let wanted = limit.saturating_sub(report.count_changed());
                if wanted == 0 {
                    beyond += count::of(left.iter().filter(|candidate| self.decide(candidate, audit).is_ok()).count());
                    break;
                }
                let later = left.split_off(self.end_of_first(&left, wanted, audit));
                let first =
                    Chunk { candidates: std::mem::replace(&mut left, later), skipped: std::mem::take(&mut skipped) };
                self.judge(first, audit).await?.add_to(&mut report, &mut planned);
            }
            (watch.progress)(report.matched + beyond);
        }
        report.beyond_limit = Some(beyond);
        Ok((report, planned))
    }

    /// Where the shortest stretch of candidates ends that has `wanted` of those that the rules would change.
    fn end_of_first(&self, candidates: &[Candidate], wanted: u64, audit: &Audit) -> usize {
        let changing = candidates.iter().enumerate().filter(|(_, candidate)| self.decide(candidate, audit).is_ok());
        let nth = usize::try_from(wanted.saturating_sub(1)).unwrap_or(usize::MAX);
        changing.map(|(at, _)| at + 1).nth(nth).unwrap_or(candidates.len())
    }

    /// Decides about a chunk, and leaves out what would change but has left nothing in the raw sink.
    pub(super) async fn judge(&self, chunk: Chunk, audit: &Audit) -> Result<Judged> {
        let Chunk { candidates, skipped } = chunk;
        let matched = candidates.len() + skipped.len();
        let mut judged = Judged { matched, skipped, candidates: Vec::with_capacity(candidates.len()) };
        for candidate in candidates {
            let decision = self.decide(&candidate, audit);
            judged.candidates.push((candidate, decision));
        }
        self.leave_out_without_raw(&mut judged).await?;
        Ok(judged)
    }

    fn decide(&self, candidate: &Candidate, audit: &Audit) -> Result<Decision, Refused> {
        match &candidate.asked {
            SubjectAsk::Partition(partition, _) if candidate.basis == Basis::Absent => {
                Ok(Decision::Partition(Box::new(partition.clone())))
            }
            SubjectAsk::Partition(partition, ask) => {
                let key = &partition.state.key;
                tracing::trace!(%key, "applied");
                let event = self.event(key, ask, audit);
                let change = partition::apply(partition, Event::Control(event), self.now())?;
                Ok(Decision::Partition(Box::new(change.after)))
            }
            SubjectAsk::Run(run, ask) => {
                let change = run::apply(run, ask.event(audit).into(), self.now())?;
                Ok(Decision::Run(Box::new(change.after)))
            }
        }
    }

    async fn leave_out_without_raw(&self, judged: &mut Judged) -> Result<()> {
        let asks = |(candidate, decision): &JudgedCandidate| decision.is_ok() && candidate.needs_raw();
        if !judged.candidates.iter().any(asks) {
            return Ok(());
        }
        let mut there = Vec::with_capacity(judged.candidates.len());
        for query in judged.candidates.chunk_by(|(a, _), (b, _)| of_same_query(a, b)) {
            let days = match (query[0].0.subject(), query.iter().filter(|judged| asks(judged)).count()) {
                (SubjectRef::Partition(key), many) if many >= LIST_FROM => {
                    tracing::trace!(%key, "raw sink listed");
                    Some(self.raw.view(self.view()).await?.days(key).await?)
                }
                (SubjectRef::Partition(_) | SubjectRef::Run(_) | SubjectRef::Hold(_), _) => None,
            };
            for judged in query {
                there.push(match (judged.0.subject(), &days) {
                    (SubjectRef::Run(_) | SubjectRef::Hold(_), _) => true,
                    (SubjectRef::Partition(_), _) if !asks(judged) => true,
                    (SubjectRef::Partition(key), Some(days)) => days.contains(&key.logical_date),
                    (SubjectRef::Partition(key), None) => {
                        tracing::trace!(%key, "raw sink listed");
                        self.raw.view(self.view()).await?.has_any(key).await?
                    }
                });
            }
        }
        let all = std::mem::take(&mut judged.candidates);
        for (candidate, there) in all.into_iter().zip(there) {
            match there {
                true => judged.candidates.push(candidate),
                false => {
                    let subject = candidate.0.subject().into();
                    judged.skipped.push((subject, Refused::Rule(Reason::NoRawPartition)));
                }
            }
        }
        Ok(())
    }
}

/// Whether two candidates are days of one query.
fn of_same_query(a: &Candidate, b: &Candidate) -> bool {
    match (a.subject(), b.subject()) {
        (SubjectRef::Partition(a), SubjectRef::Partition(b)) => same_query(a, b),
        (SubjectRef::Partition(_) | SubjectRef::Run(_) | SubjectRef::Hold(_), _) => false,
    }
}

/// What a partition or a run would be afterwards.
pub(super) enum Decision {
    Partition(Box<Partition>),
    Run(Box<Run>),
}

type JudgedCandidate = (Candidate, Result<Decision, Refused>);

/// A chunk about which it is decided. Nothing is written yet.
pub(super) struct Judged {
    pub(super) matched: usize,
    pub(super) skipped: Vec<(SubjectShape, Refused)>,
    pub(super) candidates: Vec<JudgedCandidate>,
}

impl Judged {
    /// The same chunk without its decisions, for which time has passed when it is written.
    pub(super) fn undecided(self) -> Chunk {
        let candidates = self.candidates.into_iter().map(|(candidate, _)| candidate).collect();
        Chunk { candidates, skipped: self.skipped }
    }

    fn add_to(self, report: &mut Report, planned: &mut Foreseen) {
        report.matched += u64::try_from(self.matched).unwrap_or(0);
        for (subject, refused) in &self.skipped {
            report.skip(subject.into(), *refused);
        }
        for (candidate, decision) in self.candidates {
            match (decision, &candidate.asked) {
                (Err(refused), _) => {
                    report.skip(candidate.subject(), refused);
                    continue;
                }
                (Ok(Decision::Partition(after)), SubjectAsk::Partition(before, _)) => {
                    report.change((candidate.basis != Basis::Absent).then_some(before), &after);
                }
                (Ok(Decision::Run(after)), SubjectAsk::Run(before, _)) => report.change_run(before, &after),
                // A decision is of its candidate's kind.
                (Ok(Decision::Partition(_)), SubjectAsk::Run(..))
                | (Ok(Decision::Run(_)), SubjectAsk::Partition(..)) => continue,
            }
            planned.add(candidate);
        }
    }
}
