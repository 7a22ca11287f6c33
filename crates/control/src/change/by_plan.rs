//! A plan's partitions or runs, without those that changed since.

use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::refusal::Reason;

use super::plan::{Plan, PlannedPartition, PlannedRun, PlannedVerb};
use super::runs::RunVerb;
use super::select::{Ask, Basis, CHUNK, Candidate, Chunk, RunAsk, Selection};
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::shape::SubjectShape;

/// What is asked of a day that the plan did not see: it is made, or left as another caller has made it meanwhile.
const MAKE: Ask = Ask::Backfill { force_pending: false };

pub(super) enum ByPlan<'a> {
    Partitions { insight: &'a Insight, ask: Ask, basis: Basis, left: std::vec::IntoIter<PlannedPartition> },
    Runs { insight: &'a Insight, verb: RunVerb, left: std::vec::IntoIter<PlannedRun> },
}

impl<'a> ByPlan<'a> {
    pub(super) fn new(insight: &'a Insight, plan: Plan) -> Result<Self> {
        let ask = match plan.verb()? {
            PlannedVerb::Partitions(_) if plan.partitions.iter().any(|planned| planned.version.is_none()) => {
                return Err(Error::Plan(
                    "a partition of the plan has no version, and only a backfill makes any".to_owned(),
                ));
            }
            PlannedVerb::Partitions(verb) => Ask::Verb(verb),
            PlannedVerb::Backfill { force_pending } => Ask::Backfill { force_pending },
            PlannedVerb::Runs(verb) => {
                return Ok(Self::Runs { insight, verb, left: plan.runs.unwrap_or_default().into_iter() });
            }
        };
        let basis = Basis::Planned { raw_is_checked: plan.raw_is_checked };
        Ok(Self::Partitions { insight, ask, basis, left: plan.partitions.into_iter() })
    }
}

impl Selection for ByPlan<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let some = usize::try_from(CHUNK).unwrap_or(1);
        match self {
            Self::Partitions { insight, ask, basis, left } => {
                partitions_as_planned(insight, ask, *basis, left.by_ref().take(some).collect()).await
            }
            Self::Runs { insight, verb, left } => {
                runs_as_planned(insight, *verb, left.by_ref().take(some).collect()).await
            }
        }
    }
}

async fn partitions_as_planned(
    insight: &Insight,
    ask: &Ask,
    basis: Basis,
    planned: Vec<PlannedPartition>,
) -> Result<Chunk> {
    let keys = planned.iter().map(|planned| planned.key.clone()).collect();
    let (found, now) = (insight.view().partitions_of(keys).await?, insight.now());
    let mut chunk = Chunk::default();
    for (PlannedPartition { key, version }, found) in planned.into_iter().zip(found) {
        match (version, found) {
            (Some(version), Some(partition)) if partition.state.version == version => {
                chunk.candidates.push(Candidate::partition(partition, ask.clone(), basis));
            }
            (Some(_), Some(_) | None) => chunk.skip(SubjectShape::Partition(key), Reason::ChangedSincePlan),
            (None, Some(partition)) => chunk.candidates.push(Candidate::partition(partition, MAKE, basis)),
            (None, None) => {
                let made = Partition::new(key, Lane::Backfill, now);
                chunk.candidates.push(Candidate::partition(made, MAKE, Basis::Absent));
            }
        }
    }
    Ok(chunk)
}

async fn runs_as_planned(insight: &Insight, verb: RunVerb, planned: Vec<PlannedRun>) -> Result<Chunk> {
    let found = insight.view().runs_of(planned.iter().map(|planned| planned.run_id).collect()).await?;
    let mut found = found.into_iter().peekable();
    let mut chunk = Chunk::default();
    for PlannedRun { run_id, version } in planned {
        match found.next_if(|run| run.run_id == run_id) {
            Some(run) if run.version == version => {
                let basis = Basis::Planned { raw_is_checked: true };
                chunk.candidates.push(Candidate::run(run, RunAsk::Verb(verb), basis));
            }
            Some(_) | None => chunk.skip(SubjectShape::Run { run_id }, Reason::ChangedSincePlan),
        }
    }
    Ok(chunk)
}
