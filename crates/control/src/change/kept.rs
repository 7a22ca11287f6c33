//! Plans that the store keeps: a dry run, and for a day the right to do exactly what it counted.

use std::time::Duration;

use redrive_core::id::OpId;
use redrive_store::{BulkItem, BulkOperation, KeptPlan, NewBulkOperation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::ask::PlanAsk;
use super::durable::HELD_FOR;
use super::operate::Watch;
use super::plan::Plan;
use super::undo::UNDO;
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::{Halt, PlanShape, Report, SubjectShape};

/// How long a plan may be applied.
const KEPT_FOR: Duration = Duration::from_secs(86_400);

/// How many items are added in one transaction.
const ITEMS_AT_ONCE: usize = 5000;

/// How many of the items are shown with a plan.
const SAMPLE: usize = 20;

/// What an operation in steps does, as the store keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// The items of a plan, which are kept beside it.
    Plan(Plan),
    Undo {
        op_id: OpId,
    },
}

impl Task {
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Plan(format!("what is to be done cannot be read: {error}")))
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn name(&self) -> Result<&'static str> {
        Ok(match self {
            Self::Plan(plan) => plan.verb()?.name(),
            Self::Undo { .. } => UNDO,
        })
    }

    /// The options of the request, as the audit trail keeps them.
    pub(super) fn flags(&self, audit: &Audit) -> Result<Value> {
        Ok(match self {
            Self::Plan(plan) => plan.verb()?.flags(audit),
            Self::Undo { .. } => audit.flags(),
        })
    }
}

/// What an operation in steps needs to know of its request to act as that, in any process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptRequest {
    pub(super) actor: String,
    pub(super) command: String,
    pub(super) reason: Option<String>,
    pub(super) yes: bool,
    pub(super) force: bool,
    /// JSON.
    pub(super) filters: String,
}

impl KeptRequest {
    fn new(audit: &Audit, filters: String) -> Self {
        let Audit { actor, command, reason, yes, force } = audit.clone();
        Self { actor, command, reason, yes, force, filters }
    }

    pub(super) fn audit(&self) -> Audit {
        let Self { actor, command, reason, yes, force, .. } = self.clone();
        Audit { actor, command, reason, yes, force }
    }
}

impl Plan {
    /// What a kept plan is to do, and why, without its items.
    pub(super) fn of_kept(plan: &KeptPlan) -> Result<Self> {
        match Task::parse(&plan.task)? {
            Task::Plan(head) => Ok(head),
            Task::Undo { .. } => {
                Err(Error::Plan(format!("plan {} says to undo, and an undo has no plan", plan.plan_id)))
            }
        }
    }
}

pub(super) fn by_reason(report: &Report) -> Map<String, Value> {
    report.count_by_reason().into_iter().map(|(reason, count)| (reason.as_str().to_owned(), count.into())).collect()
}

impl Insight {
    pub async fn kept_plan(&self, id: Uuid) -> Result<PlanShape> {
        Ok(self.unexpired(id).await?.into())
    }

    pub(super) async fn unexpired(&self, id: Uuid) -> Result<KeptPlan> {
        let plan = self.view().plan(id).await?.filter(|plan| plan.expires_at > self.now());
        plan.ok_or(Error::NoPlan(id))
    }
}

impl ControlPlane {
    /// Makes a dry run and keeps it. Nothing is changed, and the audit trail does not hear of it.
    pub async fn keep_plan(&self, ask: &PlanAsk, watch: Watch<'_>) -> Result<PlanShape> {
        Ok(self.foresee_and_keep(ask, watch).await?.1)
    }

    /// The same, with the report of the dry run.
    pub async fn foresee_and_keep(&self, ask: &PlanAsk, watch: Watch<'_>) -> Result<(Report, PlanShape)> {
        let (mut report, plan) = self.insight.plan(ask, watch).await?;
        match report.halt.take() {
            None => {}
            Some(Halt::Fault(error)) => return Err(error),
            Some(Halt::Interrupted) => return Err(Error::Plan("the count was interrupted; ask again".to_owned())),
        }
        let kept = self.keep(ask, &report, &plan).await?;
        Ok((report, kept))
    }

    async fn keep(&self, ask: &PlanAsk, report: &Report, plan: &Plan) -> Result<PlanShape> {
        let plan_id = self.store.new_plan_id();
        self.keep_items(plan_id, plan).await?;
        let made_at = self.store.now();
        let sample: Vec<Value> = report.changed().take(SAMPLE).map(|changed| json!(changed)).collect();
        let plan = KeptPlan {
            plan_id,
            made_at,
            expires_at: made_at.saturating_add(KEPT_FOR),
            actor: ask.audit().actor.clone(),
            matched: report.matched,
            would_change: report.count_changed(),
            op_id: None,
            task: Task::Plan(plan.head()).text(),
            filters: json!(ask.filters()).to_string(),
            by_reason: Value::Object(by_reason(report)).to_string(),
            sample: Value::Array(sample).to_string(),
        };
        Ok(self.store.keep_plan(plan).await?.into())
    }

    async fn keep_items(&self, plan_id: Uuid, plan: &Plan) -> Result<()> {
        let mut numbered = plan.items().zip(1..).peekable();
        while numbered.peek().is_some() {
            let item = |((subject, version), seq): ((SubjectShape, Option<u64>), i64)| BulkItem {
                seq,
                version,
                subject: json!(subject).to_string(),
                outcome: None,
                reason: None,
                was: None,
                becomes: None,
            };
            let items = numbered.by_ref().take(ITEMS_AT_ONCE).map(item).collect();
            self.store.add_items(plan_id, items).await?;
        }
        Ok(())
    }

    /// Makes an operation of a plan, or gives the one that was made of it before. The plan's own reason counts where the request has none.
    pub async fn begin_plan(&self, id: Uuid, audit: &Audit) -> Result<OpId> {
        let plan = self.insight.unexpired(id).await?;
        match plan.op_id {
            Some(op_id) => Ok(op_id),
            None => Ok(self.begin(plan, audit, None).await?.op_id),
        }
    }

    /// Makes an operation of a plan, held by this process where there is a holder.
    pub(super) async fn begin(&self, plan: KeptPlan, audit: &Audit, holder: Option<Uuid>) -> Result<BulkOperation> {
        let head = Plan::of_kept(&plan)?;
        let audit =
            Audit { reason: audit.reason.clone().or_else(|| head.reason().map(str::to_owned)), ..audit.clone() };
        let new = NewBulkOperation {
            op_id: self.store.new_operation_id(),
            plan: Some(plan.plan_id),
            matched: plan.matched,
            skipped: plan.matched.saturating_sub(plan.would_change),
            undo_of: None,
            verb: head.verb()?.name().to_owned(),
            task: plan.task,
            operation: json!(KeptRequest::new(&audit, plan.filters)).to_string(),
            by_reason: plan.by_reason,
            held: holder.map(|holder| (holder, HELD_FOR)),
        };
        Ok(self.store.begin_bulk(new).await?)
    }

    /// Begins to put back what an operation changed, as an operation of its own.
    pub async fn begin_undo(&self, op_id: OpId, audit: &Audit) -> Result<OpId> {
        match self.insight.view().bulk_operation(op_id).await? {
            Some(bulk) if bulk.finished_at.is_none() => return Err(Error::StillRunning(op_id)),
            Some(_) => {}
            None => self.insight.check_operation(op_id).await?,
        }
        let task = Task::Undo { op_id };
        let filters = json!({"operation": op_id}).to_string();
        let new = NewBulkOperation {
            op_id: self.store.new_operation_id(),
            plan: None,
            matched: self.insight.view().count_changes(op_id).await?,
            skipped: 0,
            undo_of: Some(op_id),
            verb: UNDO.to_owned(),
            task: task.text(),
            operation: json!(KeptRequest::new(audit, filters)).to_string(),
            by_reason: "{}".to_owned(),
            held: None,
        };
        Ok(self.store.begin_bulk(new).await?.op_id)
    }
}
