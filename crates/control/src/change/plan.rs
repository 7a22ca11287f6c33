//! A binding plan: what a dry run found, with the versions it saw. Applying it acts on exactly that.

use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::refusal::{Reason, Refused};
use serde::{Deserialize, Serialize};

use super::operate::Watch;
use super::select::{Ask, Basis, ByFilter, CHUNK, Candidate, Chunk, Request, Selection, Verb};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::Report;

const FORMAT: u32 = 1;

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
    /// Whether the raw sink has been asked for these partitions in this process. A plan out of a file may be old.
    #[serde(skip)]
    raw_is_checked: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    #[serde(flatten)]
    key: PartitionKey,
    version: u64,
}

impl Planned {
    pub(super) fn of(partition: Partition) -> Self {
        Self { version: partition.state.version, key: partition.state.key }
    }
}

impl Plan {
    fn new(verb: Verb, audit: &Audit, partitions: Vec<Planned>) -> Self {
        let (clear_terminal, allow_missing_raw, stale) = match verb {
            Verb::Retry { clear_terminal, allow_missing_raw, stale } => (clear_terminal, allow_missing_raw, stale),
            Verb::Reprocess | Verb::MarkTerminal | Verb::ClearTerminal | Verb::Pause | Verb::Resume => {
                (false, false, false)
            }
        };
        Self {
            format: FORMAT,
            operation: verb.name().to_owned(),
            clear_terminal,
            allow_missing_raw,
            stale,
            command: audit.command.clone(),
            reason: audit.reason.clone(),
            partitions,
            raw_is_checked: true,
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        let plan: Self = serde_json::from_str(text).map_err(|error| Error::Plan(format!("not a plan: {error}")))?;
        if plan.format != FORMAT {
            return Err(Error::Plan(format!("the plan has format {}, and this program knows {FORMAT}", plan.format)));
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
            other => Err(Error::Plan(format!("the plan's operation {other:?} is unknown"))),
        }
    }
}

/// A plan's partitions, without those that changed since.
struct ByPlan<'a> {
    insight: &'a Insight,
    verb: Verb,
    raw_is_checked: bool,
    left: std::vec::IntoIter<Planned>,
}

impl<'a> ByPlan<'a> {
    fn new(insight: &'a Insight, plan: Plan) -> Result<Self> {
        let (verb, raw_is_checked) = (plan.verb()?, plan.raw_is_checked);
        Ok(Self { insight, verb, raw_is_checked, left: plan.partitions.into_iter() })
    }
}

impl Selection for ByPlan<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let planned: Vec<Planned> = self.left.by_ref().take(usize::try_from(CHUNK).unwrap_or(1)).collect();
        let keys = planned.iter().map(|planned| planned.key.clone()).collect();
        let found = self.insight.view().partitions_of(keys).await?;
        let basis = Basis::Planned { raw_is_checked: self.raw_is_checked };
        let mut chunk = Chunk::default();
        for (planned, found) in planned.into_iter().zip(found) {
            match found {
                Some(partition) if partition.state.version == planned.version => {
                    chunk.candidates.push(Candidate { partition, ask: Ask::Verb(self.verb), basis });
                }
                Some(_) | None => chunk.skipped.push((planned.key, Refused::Rule(Reason::ChangedSincePlan))),
            }
        }
        Ok(chunk)
    }
}

impl Insight {
    /// A dry run, and the plan of exactly what it would change.
    pub async fn plan(&self, request: &Request, watch: Watch<'_>) -> Result<(Report, Plan)> {
        let Request { verb, filter, audit } = request;
        filter.check_for_change(self.bounds())?;
        let selection = ByFilter::new(self, *verb, filter);
        let (report, partitions) = self.foresee(verb.name(), selection, audit, watch).await?;
        Ok((report, Plan::new(*verb, audit, partitions)))
    }

    /// Says what acting on a plan would do now.
    pub async fn foresee_plan(&self, plan: Plan, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        let (name, selection) = (plan.verb()?.name(), ByPlan::new(self, plan)?);
        Ok(self.foresee(name, selection, audit, watch).await?.0)
    }
}

impl ControlPlane {
    /// Acts on a plan's partitions, those alone, and of those only what is as the plan saw it.
    pub async fn apply_plan(&self, plan: Plan, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        let report = Report::new(plan.verb()?.name(), false);
        self.act_on(plan, &Filter::default(), audit, report, watch).await
    }

    /// Acts on what [`Insight::plan`] counted for a request, and on nothing that came after.
    pub async fn operate_as_counted(
        &self,
        request: &Request,
        counted: Report,
        plan: Plan,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let matched = counted.matched.saturating_sub(plan.len());
        let report = Report { dry_run: false, matched, changed: vec![], ..counted };
        self.act_on(plan, &request.filter, &request.audit, report, watch).await
    }

    async fn act_on(
        &self,
        plan: Plan,
        filter: &Filter,
        audit: &Audit,
        report: Report,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let operation = self.operation(audit, filter, &plan.verb()?.flags(audit));
        let selection = ByPlan::new(&self.insight, plan)?;
        self.work_through(selection, audit, operation, report, watch).await
    }
}
