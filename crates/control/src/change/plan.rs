//! A binding plan: what a dry run found, with the versions it saw. Applying it acts on exactly that.

use redrive_core::count;
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::refusal::Reason;
use redrive_core::retry::Grant;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::operate::Watch;
use super::runs::RunVerb;
use super::select::{Ask, Basis, ByFilter, CHUNK, Candidate, Chunk, Request, RunAsk, Selection, SubjectAsk, Verb};
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
    /// The command line that made it.
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<Planned>,
    /// A plan is about partitions, unless it has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<PlannedRun>>,
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

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct PlannedRun {
    pub(super) run_id: RunId,
    pub(super) version: u64,
}

/// What a dry run would change, as it saw it.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    partitions: Vec<Planned>,
    pub(super) runs: Vec<PlannedRun>,
}

impl Foreseen {
    pub(super) fn add(&mut self, asked: SubjectAsk) {
        match asked {
            SubjectAsk::Partition(Partition { state, .. }, _) => {
                self.partitions.push(Planned { version: state.version, key: state.key });
            }
            SubjectAsk::Run(run, _) => self.runs.push(PlannedRun { run_id: run.run_id, version: run.version }),
        }
    }
}

/// What a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedVerb {
    Partitions(Verb),
    Runs(RunVerb),
}

impl PlannedVerb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Partitions(verb) => verb.name(),
            Self::Runs(verb) => verb.name(),
        }
    }

    fn flags(self, audit: &Audit) -> Value {
        match self {
            Self::Partitions(verb) => verb.flags(audit),
            Self::Runs(_) => audit.flags(),
        }
    }
}

impl Plan {
    fn new(verb: Verb, audit: &Audit, partitions: Vec<Planned>) -> Self {
        let (clear_terminal, allow_missing_raw, stale, grant) = match verb {
            Verb::Retry { clear_terminal, allow_missing_raw, stale, grant } => {
                (clear_terminal, allow_missing_raw, stale, grant)
            }
            Verb::Reprocess
            | Verb::Withdraw
            | Verb::MarkTerminal
            | Verb::ClearTerminal
            | Verb::Pause
            | Verb::Resume => (false, false, false, None),
        };
        Self {
            format: FORMAT,
            operation: verb.name().to_owned(),
            clear_terminal,
            allow_missing_raw,
            stale,
            grant,
            command: audit.command.clone(),
            reason: audit.reason.clone(),
            partitions,
            runs: None,
            raw_is_checked: true,
        }
    }

    pub(super) fn of_runs(verb: RunVerb, audit: &Audit, runs: Vec<PlannedRun>) -> Self {
        Self {
            format: FORMAT,
            operation: verb.name().to_owned(),
            clear_terminal: false,
            allow_missing_raw: false,
            stale: false,
            grant: None,
            command: audit.command.clone(),
            reason: audit.reason.clone(),
            partitions: vec![],
            runs: Some(runs),
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
        count::of(self.runs.as_ref().map_or(self.partitions.len(), Vec::len))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The versions that were seen.
    pub fn versions(&self) -> impl Iterator<Item = u64> + '_ {
        self.items().map(|(_, version)| version)
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

    /// Its items in their order, each with the version that was seen.
    pub(super) fn items(&self) -> impl Iterator<Item = (SubjectShape, u64)> + '_ {
        let partition = |planned: &Planned| (SubjectShape::Partition(planned.key.clone()), planned.version);
        let run = |planned: &PlannedRun| (SubjectShape::Run { run_id: planned.run_id }, planned.version);
        let runs = self.runs.iter().flatten().map(run);
        self.partitions.iter().map(partition).chain(runs)
    }

    /// The same with these items.
    pub(super) fn with_items(&self, items: impl IntoIterator<Item = (SubjectShape, u64)>) -> Self {
        let mut plan = Self { raw_is_checked: false, ..self.head() };
        for (subject, version) in items {
            match subject {
                SubjectShape::Partition(key) => plan.partitions.push(Planned { key, version }),
                SubjectShape::Run { run_id } => plan.runs.get_or_insert_default().push(PlannedRun { run_id, version }),
                // No plan is about holds.
                SubjectShape::Hold { .. } => {}
            }
        }
        plan
    }

    pub(super) fn flags(&self, audit: &Audit) -> Result<Value> {
        Ok(self.verb()?.flags(audit))
    }
}

/// A plan's partitions or runs, without those that changed since.
pub(super) enum ByPlan<'a> {
    Partitions { insight: &'a Insight, verb: Verb, raw_is_checked: bool, left: std::vec::IntoIter<Planned> },
    Runs { insight: &'a Insight, verb: RunVerb, left: std::vec::IntoIter<PlannedRun> },
}

impl<'a> ByPlan<'a> {
    pub(super) fn new(insight: &'a Insight, plan: Plan) -> Result<Self> {
        Ok(match plan.verb()? {
            PlannedVerb::Partitions(verb) => {
                let (raw_is_checked, left) = (plan.raw_is_checked, plan.partitions.into_iter());
                Self::Partitions { insight, verb, raw_is_checked, left }
            }
            PlannedVerb::Runs(verb) => Self::Runs { insight, verb, left: plan.runs.unwrap_or_default().into_iter() },
        })
    }
}

impl Selection for ByPlan<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let some = usize::try_from(CHUNK).unwrap_or(1);
        match self {
            Self::Partitions { insight, verb, raw_is_checked, left } => {
                partitions_as_planned(insight, *verb, *raw_is_checked, left.by_ref().take(some).collect()).await
            }
            Self::Runs { insight, verb, left } => {
                runs_as_planned(insight, *verb, left.by_ref().take(some).collect()).await
            }
        }
    }
}

async fn partitions_as_planned(
    insight: &Insight,
    verb: Verb,
    raw_is_checked: bool,
    planned: Vec<Planned>,
) -> Result<Chunk> {
    let keys = planned.iter().map(|planned| planned.key.clone()).collect();
    let found = insight.view().partitions_of(keys).await?;
    let basis = Basis::Planned { raw_is_checked };
    let mut chunk = Chunk::default();
    for (planned, found) in planned.into_iter().zip(found) {
        match found {
            Some(partition) if partition.state.version == planned.version => {
                chunk.candidates.push(Candidate::partition(partition, Ask::Verb(verb), basis));
            }
            Some(_) | None => chunk.skip(SubjectShape::Partition(planned.key), Reason::ChangedSincePlan),
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

impl Insight {
    /// A dry run, and the plan of exactly what it would change.
    pub async fn plan(&self, request: &Request, watch: Watch<'_>) -> Result<(Report, Plan)> {
        let Request { verb, filter, audit, limit } = request;
        filter.check_for_change(self.bounds())?;
        let selection = ByFilter::new(self, *verb, filter);
        let (report, foreseen) = match limit {
            None => self.foresee(verb.name(), selection, audit, watch).await?,
            Some(limit) => self.foresee_first(verb.name(), selection, *limit, audit, watch).await?,
        };
        Ok((report, Plan::new(*verb, audit, foreseen.partitions)))
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
        let report = counted.for_doing(plan.len());
        self.act_on(plan, &request.filter, &request.audit, report, watch).await
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
