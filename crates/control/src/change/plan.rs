//! A binding plan: what a dry run found, with the versions it saw. Applying it acts on exactly that.

use redrive_core::count;
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::retry::Grant;
use redrive_core::run::Run;
use redrive_store::BulkItem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ask::PlanAsk;
use super::backfill::BACKFILL;
use super::by_plan::ByPlan;
use super::durable;
use super::operate::Watch;
use super::runs::RunVerb;
use super::select::{Basis, ByFilter, Verb};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::{Report, SubjectShape};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<Grant>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    force_pending: bool,
    /// The command line that made it.
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) partitions: Vec<PlannedPartition>,
    /// A plan is about partitions, unless it has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) runs: Option<Vec<PlannedRun>>,
    /// Whether the raw sink has been asked for these partitions in this process. A plan out of a file may be old.
    #[serde(skip)]
    pub(super) raw_is_checked: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlannedPartition {
    #[serde(flatten)]
    pub(super) key: PartitionKey,
    /// None for a day that was not there, which a backfill makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct PlannedRun {
    pub(super) run_id: RunId,
    pub(super) version: u64,
}

/// What a dry run would change, as it saw it.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    partitions: Vec<PlannedPartition>,
    runs: Vec<PlannedRun>,
}

impl Foreseen {
    pub(super) fn add_partition(&mut self, Partition { state, .. }: Partition, basis: Basis) {
        let version = (basis != Basis::Absent).then_some(state.version);
        self.partitions.push(PlannedPartition { key: state.key, version });
    }

    pub(super) fn add_run(&mut self, run: &Run) {
        self.runs.push(PlannedRun { run_id: run.run_id, version: run.version });
    }
}

/// What a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedVerb {
    Partitions(Verb),
    Backfill { force_pending: bool },
    Runs(RunVerb),
}

impl PlannedVerb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Partitions(verb) => verb.name(),
            Self::Backfill { .. } => BACKFILL,
            Self::Runs(verb) => verb.name(),
        }
    }

    /// The request's options, as the audit trail keeps them.
    pub(super) fn flags(self, audit: &Audit) -> Value {
        match self {
            Self::Partitions(verb) => verb.flags(audit),
            Self::Backfill { force_pending } => {
                let mut flags = audit.flags();
                flags["force_pending"] = force_pending.into();
                flags
            }
            Self::Runs(_) => audit.flags(),
        }
    }
}

impl Plan {
    pub(super) fn new(verb: PlannedVerb, audit: &Audit, foreseen: Foreseen) -> Self {
        let mut plan = Self {
            format: FORMAT,
            operation: verb.name().to_owned(),
            clear_terminal: false,
            allow_missing_raw: false,
            stale: false,
            grant: None,
            force_pending: false,
            command: audit.command.clone(),
            reason: audit.reason.clone(),
            partitions: foreseen.partitions,
            runs: None,
            raw_is_checked: true,
        };
        match verb {
            PlannedVerb::Partitions(Verb::Retry { clear_terminal, allow_missing_raw, stale, grant }) => {
                (plan.clear_terminal, plan.allow_missing_raw) = (clear_terminal, allow_missing_raw);
                (plan.stale, plan.grant) = (stale, grant);
            }
            PlannedVerb::Partitions(
                Verb::Reprocess
                | Verb::Withdraw
                | Verb::MarkTerminal
                | Verb::ClearTerminal
                | Verb::Pause
                | Verb::Resume,
            ) => {}
            PlannedVerb::Backfill { force_pending } => plan.force_pending = force_pending,
            PlannedVerb::Runs(_) => plan.runs = Some(foreseen.runs),
        }
        plan
    }

    /// A plan of one run, as it was read.
    pub(super) fn of_run(verb: RunVerb, audit: &Audit, run: PlannedRun) -> Self {
        Self::new(PlannedVerb::Runs(verb), audit, Foreseen { partitions: vec![], runs: vec![run] })
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
        count::of(self.runs.as_ref().map_or(self.partitions.len(), Vec::len))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The versions that were seen.
    pub fn versions(&self) -> impl Iterator<Item = u64> + '_ {
        self.items().filter_map(|(_, version)| version)
    }

    /// What it is about, in the plural.
    pub fn noun(&self) -> &'static str {
        if self.runs.is_some() { "runs" } else { "partitions" }
    }

    /// Why it was made.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub fn verb(&self) -> Result<PlannedVerb> {
        let unknown = || Error::Plan(format!("the plan's operation {:?} is unknown", self.operation));
        if self.runs.is_some() {
            let verb = RunVerb::ALL.into_iter().find(|verb| verb.name() == self.operation);
            return verb.map(PlannedVerb::Runs).ok_or_else(unknown);
        }
        let Self { clear_terminal, allow_missing_raw, stale, grant, .. } = *self;
        Ok(PlannedVerb::Partitions(match self.operation.as_str() {
            "retry" => Verb::Retry { clear_terminal, allow_missing_raw, stale, grant },
            "reprocess" => Verb::Reprocess,
            "withdraw" => Verb::Withdraw,
            "mark-terminal" => Verb::MarkTerminal,
            "clear-terminal" => Verb::ClearTerminal,
            "pause" => Verb::Pause,
            "resume" => Verb::Resume,
            BACKFILL => return Ok(PlannedVerb::Backfill { force_pending: self.force_pending }),
            _ => return Err(unknown()),
        }))
    }
}

/// Plans and their items, as the store keeps them.
impl Plan {
    /// The same without its items: what is to be done, and why.
    pub(super) fn head(&self) -> Self {
        Self { partitions: vec![], runs: self.runs.as_ref().map(|_| vec![]), ..self.clone() }
    }

    /// Its items in their order, each with the version that was seen; none where it is to be made.
    pub(super) fn items(&self) -> impl Iterator<Item = (SubjectShape, Option<u64>)> + '_ {
        let partition = |planned: &PlannedPartition| (SubjectShape::Partition(planned.key.clone()), planned.version);
        let run = |planned: &PlannedRun| (SubjectShape::Run { run_id: planned.run_id }, Some(planned.version));
        let runs = self.runs.iter().flatten().map(run);
        self.partitions.iter().map(partition).chain(runs)
    }

    /// The same with these items.
    pub(super) fn with_items(&self, items: &[BulkItem]) -> Result<Self> {
        let mut plan = Self { raw_is_checked: false, ..self.head() };
        for BulkItem { subject, version, .. } in items {
            match (durable::parse(subject)?, *version) {
                (SubjectShape::Partition(key), version) => plan.partitions.push(PlannedPartition { key, version }),
                (SubjectShape::Run { run_id }, Some(version)) => {
                    plan.runs.get_or_insert_default().push(PlannedRun { run_id, version });
                }
                (SubjectShape::Run { .. } | SubjectShape::Hold { .. }, _) => {
                    return Err(Error::Plan(format!("no plan can have the item {subject}")));
                }
            }
        }
        Ok(plan)
    }
}

impl Insight {
    /// A dry run, and the plan of exactly what it would change.
    pub async fn plan(&self, ask: &PlanAsk, watch: Watch<'_>) -> Result<(Report, Plan)> {
        let (verb, audit) = (ask.verb(), ask.audit());
        let name = verb.name();
        let (report, foreseen) = match ask {
            PlanAsk::Partitions(request) => {
                request.filter.check_for_change(self.bounds())?;
                let selection = ByFilter::new(self, request.verb, &request.filter);
                match request.limit {
                    None => self.foresee(name, selection, audit, watch).await?,
                    Some(limit) => self.foresee_first(name, selection, limit, audit, watch).await?,
                }
            }
            PlanAsk::Backfill { filter, force_pending, .. } => {
                let range = self.range(filter)?;
                self.foresee(name, range.selection(self, *force_pending), audit, watch).await?
            }
            PlanAsk::Runs(request) => self.foresee(name, request.selection(self)?, audit, watch).await?,
        };
        Ok((report, Plan::new(verb, audit, foreseen)))
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
        ask: &PlanAsk,
        counted: Report,
        plan: Plan,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let report = counted.for_doing(plan.len());
        self.act_on(plan, &ask.filters(), ask.audit(), report, watch).await
    }

    pub(super) async fn act_on(
        &self,
        plan: Plan,
        filter: &impl Serialize,
        audit: &Audit,
        report: Report,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let operation = self.operation(audit, filter, &plan.verb()?.flags(audit));
        let selection = ByPlan::new(&self.insight, plan)?;
        self.work_through(selection, audit, operation, report, watch).await
    }
}
