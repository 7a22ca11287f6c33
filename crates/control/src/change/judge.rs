//! Deciding about a chunk, once: by the rules, and by what the raw sink holds. Nothing is written.

use std::collections::BTreeSet;

use redrive_core::count;
use redrive_core::key::{LogicalDate, PartitionKey};
use redrive_core::partition::{self, Event, Partition};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{self, Run};

use super::plan::Foreseen;
use super::select::{Ask, Basis, Candidate, Chunk, RunAsk, SubjectAsk, same_query};
use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Report, SubjectRef, SubjectShape};

/// From how many days of one query on the raw sink is listed once for all of them.
const LIST_FROM: usize = 4;

/// A partition or a run as it is, what is asked of it, and what it would be afterwards.
enum JudgedAsk {
    Partition(Partition, Ask, Result<Box<Partition>, Refused>),
    Run(Run, RunAsk, Result<Box<Run>, Refused>),
}

struct JudgedCandidate {
    asked: JudgedAsk,
    basis: Basis,
}

/// A chunk about which it is decided.
pub(super) struct Judged {
    skipped: Vec<(SubjectShape, Refused)>,
    candidates: Vec<JudgedCandidate>,
}

impl Insight {
    /// Decides about a chunk, and leaves out what would change but has left nothing in the raw sink. The sink is asked in the chunk's
    /// order, and no more once `enough` would change.
    pub(super) async fn judge(&self, chunk: Chunk, audit: &Audit, enough: u64) -> Result<Judged> {
        let Chunk { candidates, skipped } = chunk;
        let mut candidates: Vec<_> = candidates.into_iter().map(|candidate| self.decide(candidate, audit)).collect();
        self.leave_out_without_raw(&mut candidates, enough).await?;
        Ok(Judged { skipped, candidates })
    }

    fn decide(&self, Candidate { asked, basis }: Candidate, audit: &Audit) -> JudgedCandidate {
        let asked = match asked {
            SubjectAsk::Partition(partition, ask) => {
                let after = match basis {
                    Basis::Absent => Ok(Box::new(partition.clone())),
                    Basis::Read | Basis::Planned { .. } => self.apply(&partition, &ask, audit),
                };
                JudgedAsk::Partition(partition, ask, after)
            }
            SubjectAsk::Run(run, ask) => {
                let change = run::apply(&run, ask.event(audit).into(), self.now());
                JudgedAsk::Run(run, ask, change.map(|change| Box::new(change.after)))
            }
        };
        JudgedCandidate { asked, basis }
    }

    /// Puts a partition to the rules. What is to be written is put to them once more, by the store.
    fn apply(&self, partition: &Partition, ask: &Ask, audit: &Audit) -> Result<Box<Partition>, Refused> {
        let key = &partition.state.key;
        tracing::trace!(%key, "applied");
        let event = Event::Control(self.event(key, ask, audit));
        partition::apply(partition, event, self.now()).map(|change| Box::new(change.after))
    }

    async fn leave_out_without_raw(&self, candidates: &mut [JudgedCandidate], enough: u64) -> Result<()> {
        let mut changing = 0;
        for query in candidates.chunk_by_mut(JudgedCandidate::is_of_the_query_of) {
            if changing >= enough {
                break;
            }
            let days = self.days_in_raw(query).await?;
            for judged in query {
                if changing >= enough {
                    break;
                }
                let is_there = match (judged.needs_raw(), &days) {
                    (None, _) => true,
                    (Some(key), Some(days)) => days.contains(&key.logical_date),
                    (Some(key), None) => {
                        tracing::trace!(%key, "raw sink listed");
                        self.raw.view(self.view()).await?.has_any(key).await?
                    }
                };
                if !is_there {
                    judged.refuse(Refused::Rule(Reason::NoRawPartition));
                }
                changing += u64::from(judged.would_change());
            }
        }
        Ok(())
    }

    /// The days of a query that the raw sink has, where many are asked for.
    async fn days_in_raw(&self, query: &[JudgedCandidate]) -> Result<Option<BTreeSet<LogicalDate>>> {
        let mut asked = query.iter().filter_map(JudgedCandidate::needs_raw);
        let Some(key) = asked.nth(LIST_FROM - 1) else { return Ok(None) };
        tracing::trace!(%key, "raw sink listed");
        Ok(Some(self.raw.view(self.view()).await?.days(key).await?))
    }
}

impl JudgedCandidate {
    fn would_change(&self) -> bool {
        match &self.asked {
            JudgedAsk::Partition(_, _, after) => after.is_ok(),
            JudgedAsk::Run(_, _, after) => after.is_ok(),
        }
    }

    /// The partition, where it would change and may do so only if the raw sink holds something of it.
    fn needs_raw(&self) -> Option<&PartitionKey> {
        match &self.asked {
            JudgedAsk::Partition(partition, ask, Ok(_)) if ask.needs_raw(self.basis) => Some(&partition.state.key),
            JudgedAsk::Partition(..) | JudgedAsk::Run(..) => None,
        }
    }

    /// Whether two candidates are days of one query.
    fn is_of_the_query_of(&self, other: &Self) -> bool {
        match (&self.asked, &other.asked) {
            (JudgedAsk::Partition(a, ..), JudgedAsk::Partition(b, ..)) => same_query(&a.state.key, &b.state.key),
            (JudgedAsk::Partition(..) | JudgedAsk::Run(..), _) => false,
        }
    }

    fn refuse(&mut self, why: Refused) {
        match &mut self.asked {
            JudgedAsk::Partition(_, _, after) => *after = Err(why),
            JudgedAsk::Run(_, _, after) => *after = Err(why),
        }
    }
}

impl Judged {
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.skipped.is_empty()
    }

    /// Takes off what comes after the first `limit` that would change; says how many of that would change by the rules.
    pub(super) fn cut_after(&mut self, limit: u64) -> u64 {
        let mut left = limit;
        let is_within = |judged: &JudgedCandidate| {
            let is_within = left > 0;
            left = left.saturating_sub(u64::from(judged.would_change()));
            is_within
        };
        let end = self.candidates.iter().map(is_within).take_while(|&is_within| is_within).count();
        count::of(self.candidates.drain(end..).filter(JudgedCandidate::would_change).count())
    }

    /// What would change, without its decisions, for which time has passed when it is written.
    pub(super) fn undecided(self) -> Chunk {
        let mut chunk = Chunk { candidates: Vec::with_capacity(self.candidates.len()), skipped: self.skipped };
        for JudgedCandidate { asked, basis } in self.candidates {
            match asked {
                JudgedAsk::Partition(partition, ask, Ok(_)) => {
                    chunk.candidates.push(Candidate::partition(partition, ask, basis));
                }
                JudgedAsk::Partition(partition, _, Err(why)) => {
                    chunk.skipped.push((SubjectShape::Partition(partition.state.key), why));
                }
                JudgedAsk::Run(run, ask, Ok(_)) => chunk.candidates.push(Candidate::run(run, ask, basis)),
                JudgedAsk::Run(run, _, Err(why)) => chunk.skipped.push((SubjectShape::Run { run_id: run.run_id }, why)),
            }
        }
        chunk
    }

    pub(super) fn add_to(self, report: &mut Report, planned: &mut Foreseen) {
        report.matched += count::of(self.candidates.len() + self.skipped.len());
        for (subject, refused) in &self.skipped {
            report.skip(subject.into(), *refused);
        }
        for JudgedCandidate { asked, basis } in self.candidates {
            match asked {
                JudgedAsk::Partition(before, _, Ok(after)) => {
                    report.change((basis != Basis::Absent).then_some(&before), &after);
                    planned.add_partition(before, basis);
                }
                JudgedAsk::Partition(before, _, Err(why)) => report.skip(SubjectRef::Partition(&before.state.key), why),
                JudgedAsk::Run(before, _, Ok(after)) => {
                    report.change_run(&before, &after);
                    planned.add_run(&before);
                }
                JudgedAsk::Run(before, _, Err(why)) => report.skip(SubjectRef::Run(before.run_id), why),
            }
        }
    }
}
