//! What an operation would do. Nothing is written, so this needs no more than a view.

use std::sync::atomic::Ordering;

use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, Change, Event};
use redrive_core::refusal::{Reason, Refused};

use super::operate::Watch;
use super::plan::Planned;
use super::select::{Basis, Candidate, Chunk, Selection, same_query};
use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Halt, Report};

/// From how many days of one query on the raw sink is listed once for all of them.
const LIST_FROM: usize = 4;

impl Insight {
    /// Says what a selection would change, and with which version each of those partitions was seen.
    pub(super) async fn foresee(
        &self,
        name: &'static str,
        mut selection: impl Selection,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<(Report, Vec<Planned>)> {
        let (mut report, mut planned) = (Report::new(name, true), Vec::new());
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

    fn decide(&self, candidate: &Candidate, audit: &Audit) -> Result<Change, Refused> {
        let Candidate { partition, ask, basis } = candidate;
        if *basis == Basis::Absent {
            return Ok(Change { expect_version: 0, had_control: false, after: partition.clone() });
        }
        let event = self.event(candidate.key(), ask, audit);
        tracing::trace!(key = %candidate.key(), "applied");
        partition::apply(partition, Event::Control(event), self.now())
    }

    async fn leave_out_without_raw(&self, judged: &mut Judged) -> Result<()> {
        let mut there = Vec::with_capacity(judged.candidates.len());
        for query in judged.candidates.chunk_by(|(a, _), (b, _)| same_query(a.key(), b.key())) {
            let asks = |(candidate, decision): &(Candidate, Result<Change, Refused>)| {
                decision.is_ok() && candidate.needs_raw()
            };
            let days = match query.iter().filter(|judged| asks(judged)).count() {
                many if many >= LIST_FROM => {
                    let key = query[0].0.key();
                    tracing::trace!(%key, "raw sink listed");
                    Some(self.raw.view().await?.days(key).await?)
                }
                _ => None,
            };
            for judged in query {
                let key = judged.0.key();
                there.push(match &days {
                    _ if !asks(judged) => true,
                    Some(days) => days.contains(&key.logical_date),
                    None => {
                        tracing::trace!(%key, "raw sink listed");
                        self.raw.view().await?.has_any(key).await?
                    }
                });
            }
        }
        let all = std::mem::take(&mut judged.candidates);
        for (candidate, there) in all.into_iter().zip(there) {
            match there {
                true => judged.candidates.push(candidate),
                false => {
                    let key = candidate.0.partition.state.key;
                    judged.skipped.push((key, Refused::Rule(Reason::NoRawPartition)));
                }
            }
        }
        Ok(())
    }
}

/// A chunk about which it is decided. Nothing is written yet.
pub(super) struct Judged {
    pub(super) matched: usize,
    pub(super) skipped: Vec<(PartitionKey, Refused)>,
    pub(super) candidates: Vec<(Candidate, Result<Change, Refused>)>,
}

impl Judged {
    /// The same chunk without its decisions, for which time has passed when it is written.
    pub(super) fn undecided(self) -> Chunk {
        let candidates = self.candidates.into_iter().map(|(candidate, _)| candidate).collect();
        Chunk { candidates, skipped: self.skipped }
    }

    fn add_to(self, report: &mut Report, planned: &mut Vec<Planned>) {
        report.matched += u64::try_from(self.matched).unwrap_or(0);
        for (key, refused) in self.skipped {
            report.skip(key, refused);
        }
        for (candidate, decision) in self.candidates {
            match decision {
                Ok(change) => {
                    let before = (candidate.basis != Basis::Absent).then_some(&candidate.partition);
                    report.change(before, &change.after);
                    planned.push(Planned::of(candidate.partition));
                }
                Err(refused) => report.skip(candidate.partition.state.key, refused),
            }
        }
    }
}
