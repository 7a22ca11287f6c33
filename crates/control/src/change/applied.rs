//! Acting on a kept plan at the command line: the operation is made as the server makes it, and its steps are done here, so that what a
//! killed command leaves is gone on with by a server or a daemon.

use redrive_store::KeptPlan;
use uuid::Uuid;

use super::durable::CarriedOn;
use super::operate::Watch;
use super::plan::Plan;
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::prefix::{Found, IdPrefix};
use crate::shape::{Halt, Report};

/// How many items of a plan are read at a time.
const PAGE: u32 = 5000;

/// The beginning of a plan's id.
pub type PlanPrefix = IdPrefix<Uuid>;

/// What a person is asked about before a kept plan is acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOutline {
    pub plan_id: Uuid,
    pub would_change: u64,
    /// What it is about, in the plural.
    pub noun: &'static str,
}

impl Insight {
    /// Finds a plan by its id, or by an unambiguous beginning of it.
    pub async fn find_plan(&self, prefix: PlanPrefix) -> Result<Found<PlanOutline, Uuid>> {
        Ok(match Found::of(&self.view().plan_ids_between(prefix.first, prefix.last, 2).await?) {
            Found::Nothing => Found::Nothing,
            Found::Several(first, second) => Found::Several(first, second),
            Found::One(id) => Found::One(outline(&self.unapplied(id).await?)?),
        })
    }

    /// A plan that may be acted on: it is not too old, and no operation was made of it.
    async fn unapplied(&self, id: Uuid) -> Result<KeptPlan> {
        let plan = self.unexpired(id).await?;
        match plan.op_id {
            Some(op_id) => Err(Error::Applied { plan: id, op_id }),
            None => Ok(plan),
        }
    }

    /// Says what acting on a kept plan would do now.
    pub async fn foresee_kept(&self, id: Uuid, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        let kept = self.unapplied(id).await?;
        let plan = self.whole(id, &Plan::of_kept(&kept)?).await?;
        self.foresee_plan(plan, audit, watch).await
    }

    /// A plan with all of its items.
    async fn whole(&self, id: Uuid, head: &Plan) -> Result<Plan> {
        let (mut items, mut after) = (Vec::new(), 0);
        loop {
            let page = self.view().bulk_items(id, after, None, PAGE).await?;
            let Some(last) = page.last() else { return head.with_items(&items) };
            after = last.seq;
            items.extend(page);
        }
    }
}

impl ControlPlane {
    /// Acts on a kept plan, and reports as any other change does. What is stopped half-way is cancelled.
    pub async fn apply_kept(&self, id: Uuid, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        let plan = self.insight.unapplied(id).await?;
        let holder = self.store.new_holder();
        let bulk = self.begin(plan, audit, Some(holder)).await?;
        let op_id = bulk.op_id;
        let (ended, mut report) = self.carry_through(bulk, holder, watch.cancelled).await?;
        report.op_id = Some(op_id);
        match ended {
            CarriedOn::Ended(_) | CarriedOn::Nothing => {}
            CarriedOn::Left(_) => {
                self.store.cancel_bulk(op_id).await?;
                report.halt = Some(Halt::Interrupted);
            }
        }
        Ok(report)
    }
}

fn outline(plan: &KeptPlan) -> Result<PlanOutline> {
    let noun = Plan::of_kept(plan)?.noun();
    Ok(PlanOutline { plan_id: plan.plan_id, would_change: plan.would_change, noun })
}
