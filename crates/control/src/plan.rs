//! A binding plan: what a dry run found, with the versions it saw. Applying it acts on exactly that.

use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::refusal::{Reason, Refused};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::operate::{ByFilter, Candidate, Chunk, Deed, Selection};
use crate::plane::ControlPlane;
use crate::request::{Order, Request, Verb, Watch};
use crate::shape::Report;

const FORMAT: u32 = 1;
/// How many of a plan's partitions are read at a time.
const CHUNK: usize = 1000;

/// A plan as its file holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    format: u32,
    operation: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    clear_terminal: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow_missing_raw: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    /// The command line that made it.
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    partitions: Vec<Planned>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Planned {
    #[serde(flatten)]
    key: PartitionKey,
    version: u64,
}

impl Plan {
    pub fn parse(text: &str) -> Result<Self> {
        let plan: Self = serde_json::from_str(text).map_err(|error| Error::Usage(format!("not a plan: {error}")))?;
        if plan.format != FORMAT {
            return Err(Error::Usage(format!("the plan has format {}, and this program knows {FORMAT}", plan.format)));
        }
        plan.verb()?;
        Ok(plan)
    }

    pub fn len(&self) -> u64 {
        u64::try_from(self.partitions.len()).unwrap_or(u64::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Why it was made.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub fn verb(&self) -> Result<Verb> {
        let Self { clear_terminal, allow_missing_raw, stale, .. } = *self;
        match self.operation.as_str() {
            "retry" => Ok(Verb::Retry { clear_terminal, allow_missing_raw, stale }),
            "reprocess" => Ok(Verb::Reprocess),
            "mark-terminal" => Ok(Verb::MarkTerminal),
            "clear-terminal" => Ok(Verb::ClearTerminal),
            "pause" => Ok(Verb::Pause),
            "resume" => Ok(Verb::Resume),
            other => Err(Error::Usage(format!("the plan's operation {other:?} is unknown"))),
        }
    }
}

/// A selection that remembers the version of everything it gave.
struct Remembering<'a, S> {
    inner: S,
    seen: &'a mut Vec<Planned>,
}

impl<S: Selection + Send> Selection for Remembering<'_, S> {
    async fn next(&mut self) -> Result<Chunk> {
        let chunk = self.inner.next().await?;
        self.seen.extend(chunk.candidates.iter().map(|candidate| Planned {
            key: candidate.partition.state.key.clone(),
            version: candidate.partition.state.version,
        }));
        Ok(chunk)
    }
}

/// A plan's partitions, those that changed since left out.
struct ByPlan<'a> {
    plane: &'a ControlPlane,
    left: std::vec::IntoIter<Planned>,
}

impl Selection for ByPlan<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let planned: Vec<Planned> = self.left.by_ref().take(CHUNK).collect();
        let keys = planned.iter().map(|planned| planned.key.clone()).collect();
        let found = self.plane.view().partitions_of(keys).await?;
        let mut chunk = Chunk::default();
        for (planned, found) in planned.into_iter().zip(found) {
            match found {
                Some(partition) if partition.state.version == planned.version => {
                    chunk.candidates.push(Candidate { partition, revert: None, pinned: true });
                }
                Some(_) | None => chunk.skipped.push((planned.key, Refused::Rule(Reason::ChangedSincePlan))),
            }
        }
        Ok(chunk)
    }
}

impl ControlPlane {
    /// A dry run, and the plan of exactly what it would change.
    pub async fn plan(&self, request: &Request, watch: Watch<'_>) -> Result<(Report, Plan)> {
        request.filter.check_for_change(self.insight.bounds())?;
        let mut seen = Vec::new();
        let inner = ByFilter { plane: self, page: request.verb.page(&request.filter), done: false };
        let selection = Remembering { inner, seen: &mut seen };
        let Request { verb, filter, order } = request;
        let operation = self.operation_of(*verb, filter, order);
        let report = self.work_through(selection, Deed::Verb(*verb, order), operation, true, watch).await?;
        let changing: std::collections::HashSet<&PartitionKey> =
            report.changed.iter().map(|changed| &changed.key).collect();
        seen.retain(|planned| changing.contains(&planned.key));
        let (clear_terminal, allow_missing_raw, stale) = match request.verb {
            Verb::Retry { clear_terminal, allow_missing_raw, stale } => (clear_terminal, allow_missing_raw, stale),
            Verb::Reprocess | Verb::MarkTerminal | Verb::ClearTerminal | Verb::Pause | Verb::Resume => {
                (false, false, false)
            }
        };
        let plan = Plan {
            format: FORMAT,
            operation: request.verb.name().to_owned(),
            clear_terminal,
            allow_missing_raw,
            stale,
            command: order.command.clone(),
            reason: order.reason.clone(),
            partitions: seen,
        };
        Ok((report, plan))
    }

    /// Acts on a plan's partitions, those alone, and of those only what is as the plan saw it.
    pub async fn apply_plan(&self, plan: Plan, order: &Order, watch: Watch<'_>) -> Result<Report> {
        let verb = plan.verb()?;
        let selection = ByPlan { plane: self, left: plan.partitions.into_iter() };
        let operation = self.operation_of(verb, &Filter::default(), order);
        self.work_through(selection, Deed::Verb(verb, order), operation, order.dry_run, watch).await
    }
}
