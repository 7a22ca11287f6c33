//! Plans: what a dry run found, kept for a day.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;
use uuid::Uuid;

use super::items::forget;
use crate::db::{Row, Sql, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, View, read, transact};

/// How long the items of an operation are kept after its plan was applied. What it changed is in the audit trail for ever.
const ITEMS_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// How many items are taken away in one transaction.
const FORGOTTEN_AT_ONCE: u32 = 5000;

/// A plan, without its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPlan {
    pub plan_id: Uuid,
    pub made_at: Timestamp,
    pub expires_at: Timestamp,
    pub actor: String,
    pub matched: u64,
    pub would_change: u64,
    /// The operation that was made of it.
    pub op_id: Option<OpId>,
    /// What is to be done, as JSON.
    pub task: String,
    /// JSON.
    pub filters: String,
    /// JSON.
    pub by_reason: String,
    /// JSON.
    pub sample: String,
}

impl ControlStore {
    /// An identity for a plan.
    pub fn new_plan_id(&self) -> Uuid {
        self.inner.ids.operation(self.inner.now()).uuid()
    }

    /// Adds a plan whose items are there; gives it back.
    pub async fn keep_plan(&self, plan: KeptPlan) -> Result<KeptPlan> {
        transact!(self.inner, "keep plan", |tx, plan| {
            keep(tx, &plan).await?;
            Ok(KeptPlan::clone(&plan))
        })
    }

    /// Forgets plans that are over, and the items of operations that ended long ago; gives how many lists were.
    pub async fn prune_plans(&self) -> Result<u64> {
        let mut pruned = 0;
        loop {
            let more = transact!(self.inner, "prune plans", |tx| prune_one(tx).await)?;
            match more {
                Pruned::Nothing => return Ok(pruned),
                Pruned::Some => {}
                Pruned::Whole => pruned += 1,
            }
        }
    }
}

impl View {
    pub async fn plan(&self, id: Uuid) -> Result<Option<KeptPlan>> {
        read!(self, "plan", |tx, id| get(tx, *id))
    }

    /// The first plans whose ids lie between two.
    pub async fn plan_ids_between(&self, first: Uuid, last: Uuid, most: u32) -> Result<Vec<Uuid>> {
        read!(self.read_by_index, "plan ids", |tx, first, last, most| between(tx, *first, *last, *most))
    }
}

static KEEP: Sql = Sql::new(
    "/* plans::keep */
     INSERT INTO plans (plan_id, made_at, expires_at, matched, would_change, actor, task, filters, by_reason, sample)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
);

async fn keep(tx: &mut Tx<'_>, plan: &KeptPlan) -> Result<()> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let params = [
        plan.plan_id.into(),
        plan.made_at.micros().into(),
        plan.expires_at.micros().into(),
        number(plan.matched).into(),
        number(plan.would_change).into(),
        plan.actor.as_str().into(),
        plan.task.as_str().into(),
        plan.filters.as_str().into(),
        plan.by_reason.as_str().into(),
        plan.sample.as_str().into(),
    ];
    tx.execute(&KEEP, &params).await.map(drop)
}

static GET: Sql = Sql::new(
    "/* plans::get */
     SELECT plan_id, made_at, expires_at, matched, would_change, op_id, actor, task, filters, by_reason, sample
     FROM plans
     WHERE plan_id = ?1",
);

pub(super) async fn get(tx: &mut Tx<'_>, id: Uuid) -> Result<Option<KeptPlan>> {
    tx.row(&GET, &[id.into()], read_row).await
}

fn read_row(row: &Row<'_>) -> Result<KeptPlan> {
    let mut row = row.cursor();
    Ok(KeptPlan {
        plan_id: row.id()?,
        made_at: row.time()?,
        expires_at: row.time()?,
        matched: row.count()?,
        would_change: row.count()?,
        op_id: row.opt_id()?.map(OpId::from_uuid),
        actor: row.text()?,
        task: row.text()?,
        filters: row.text()?,
        by_reason: row.text()?,
        sample: row.text()?,
    })
}

static BETWEEN: Sql = Sql::new(
    "/* plans::between */
     SELECT plan_id
     FROM plans
     WHERE plan_id >= ?1
       AND plan_id <= ?2
     ORDER BY plan_id
     LIMIT CAST(?3 AS BIGINT)",
);

async fn between(tx: &mut Tx<'_>, first: Uuid, last: Uuid, most: u32) -> Result<Vec<Uuid>> {
    tx.rows(&BETWEEN, &[first.into(), last.into(), i64::from(most).into()], |row| row.id(0)).await
}

static APPLIED: Sql = Sql::new(
    "/* plans::applied */
     UPDATE plans
     SET op_id = ?2, expires_at = ?3
     WHERE plan_id = ?1
       AND op_id IS NULL",
);

/// Notes which operation is made of a plan; says whether none was before.
pub(super) async fn apply(tx: &mut Tx<'_>, id: Uuid, op_id: OpId) -> Result<bool> {
    let kept_until = tx.now().saturating_add(ITEMS_KEPT);
    let params = [id.into(), op_id.uuid().into(), kept_until.micros().into()];
    Ok(tx.execute(&APPLIED, &params).await? > 0)
}

/// What a step of pruning did.
enum Pruned {
    Nothing,
    /// Items of a list, of which there are more.
    Some,
    Whole,
}

static EXPIRED: Sql = Sql::new(
    "/* plans::expired */
     SELECT plan_id
     FROM plans
     WHERE expires_at <= CAST(?1 AS BIGINT)
     ORDER BY expires_at
     LIMIT 1
     {skip_locked}",
);
static FORGET: Sql = Sql::new(
    "/* plans::forget */
     DELETE FROM plans
     WHERE plan_id = ?1",
);

async fn prune_one(tx: &mut Tx<'_>) -> Result<Pruned> {
    let now = tx.now().micros();
    let Some(id) = tx.row(&EXPIRED, &[now.into()], |row| row.id(0)).await? else { return Ok(Pruned::Nothing) };
    if forget(tx, id, FORGOTTEN_AT_ONCE).await? >= u64::from(FORGOTTEN_AT_ONCE) {
        return Ok(Pruned::Some);
    }
    tx.execute(&FORGET, &[id.into()]).await?;
    Ok(Pruned::Whole)
}
