//! Operations that are done in steps. Whoever holds one does its next step; a holder that falls silent is replaced when its time is over,
//! and what it does after that is refused.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::OpId;
use redrive_core::notice::Notice;
use redrive_core::time::Timestamp;
use uuid::Uuid;

use super::items::{SettledItem, settle};
use super::plans;
use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, View, read, transact};
use crate::ids::Ids;
use crate::notifications;

/// How an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkState {
    Running,
    Done,
    Cancelled,
    Failed,
}

impl BulkState {
    const ALL: [Self; 4] = [Self::Running, Self::Done, Self::Cancelled, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkOperation {
    pub op_id: OpId,
    pub list_id: Uuid,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub state: BulkState,
    pub matched: u64,
    pub changed: u64,
    pub skipped: u64,
    pub failed: u64,
    /// How far it is: what that counts is its verb's to say.
    pub done_to: i64,
    pub cancel_asked: bool,
    pub undo_of: Option<OpId>,
    pub verb: String,
    /// What is to be done, as JSON.
    pub task: String,
    /// What the audit trail keeps of the request, as JSON.
    pub operation: String,
    /// JSON.
    pub by_reason: String,
    /// What ended it, where it failed.
    pub fault: Option<String>,
}

/// An operation that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBulkOperation {
    pub op_id: OpId,
    /// The plan that it is made of.
    pub plan: Option<Uuid>,
    pub matched: u64,
    pub skipped: u64,
    pub undo_of: Option<OpId>,
    pub verb: String,
    pub task: String,
    pub operation: String,
    pub by_reason: String,
    /// Who does its first steps and holds it for so long; none where any process may take it up.
    pub held: Option<(Uuid, Duration)>,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub op_id: OpId,
    pub holder: Uuid,
    pub items: Vec<SettledItem>,
    /// How far the operation is now, and was before.
    pub done_to: i64,
    pub from: i64,
    pub changed: u64,
    pub skipped: u64,
    pub failed: u64,
    pub by_reason: String,
}

/// What became of asking an operation to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It ends after the step that it is at.
    Asked,
    Over(BulkState),
    Absent,
}

impl ControlStore {
    /// Begins an operation, or gives the one that was made of the same plan before.
    pub async fn begin_bulk(&self, new: NewBulkOperation) -> Result<BulkOperation> {
        transact!(self.inner, "begin operation", |tx, new| begin(tx, &new).await)
    }

    /// An identity for a process that holds an operation.
    pub fn new_holder(&self) -> Uuid {
        self.inner.ids.task(self.inner.now()).uuid()
    }

    /// Takes up an operation that nobody holds: the one named, or the one that waits longest. Holds it for so long.
    pub async fn take_bulk(&self, which: Option<OpId>, held_for: Duration) -> Result<Option<(BulkOperation, Uuid)>> {
        let holder = self.new_holder();
        transact!(self.inner, "take operation", |tx| take(tx, which, holder, held_for).await)
    }

    /// Writes down what a step did, and holds the operation for so long again; gives nothing where another has taken it over, and
    /// otherwise whether it is asked to end.
    pub async fn note_progress(&self, progress: Progress, held_for: Duration) -> Result<Option<bool>> {
        transact!(self.inner, "note progress", |tx, progress| note(tx, &progress, held_for).await)
    }

    /// Ends an operation and has people told; says whether the caller still held it.
    pub async fn end_bulk(&self, op_id: OpId, holder: Uuid, state: BulkState, fault: Option<String>) -> Result<bool> {
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "end operation", |tx, fault, inner| {
            let params = [
                op_id.uuid().into(),
                holder.into(),
                state.as_str().into(),
                tx.now().micros().into(),
                (*fault).as_deref().into(),
            ];
            let is_ended = tx.execute(&END, &params).await? > 0;
            if is_ended {
                tell_of_end(tx, &inner.ids, op_id).await?;
            }
            Ok(is_ended)
        })
    }

    /// Lets an operation go, for another to go on with it at once.
    pub async fn let_go_bulk(&self, op_id: OpId, holder: Uuid) -> Result<()> {
        transact!(self.inner, "let operation go", |tx| {
            tx.execute(&LET_GO, &[op_id.uuid().into(), holder.into()]).await.map(drop)
        })
    }

    /// Asks an operation to end; one that nobody is at ends at once, and people are told.
    pub async fn cancel_bulk(&self, op_id: OpId) -> Result<CancelOutcome> {
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "cancel operation", |tx, inner| cancel(tx, &inner.ids, op_id).await)
    }
}

impl View {
    pub async fn bulk_operation(&self, id: OpId) -> Result<Option<BulkOperation>> {
        read!(self, "operation in steps", |tx, id| get(tx, *id))
    }

    /// Operations, newest first, before the one with this id.
    pub async fn bulk_operations(&self, before: Option<OpId>, limit: u32) -> Result<Vec<BulkOperation>> {
        let before = before.map_or(Uuid::max(), OpId::uuid);
        read!(self.read_by_index, "operations in steps", |tx, before, limit| page(tx, *before, *limit))
    }
}

macro_rules! columns {
    () => {
        "op_id, list_id, started_at, finished_at, state, matched, changed, skipped, failed, done_to, cancel_asked, undo_of, verb,
         task, operation, by_reason, fault"
    };
}

static GET: Sql = Sql::new(concat!(
    "/* bulk::get */
     SELECT ",
    columns!(),
    "
     FROM bulk_operations
     WHERE op_id = ?1"
));
static PAGE: Sql = Sql::new(concat!(
    "/* bulk::page */
     SELECT ",
    columns!(),
    "
     FROM bulk_operations
     WHERE op_id < ?1
     ORDER BY op_id DESC
     LIMIT CAST(?2 AS BIGINT)"
));

async fn get(tx: &mut Tx<'_>, id: OpId) -> Result<Option<BulkOperation>> {
    tx.row(&GET, &[id.uuid().into()], read_row).await
}

async fn page(tx: &mut Tx<'_>, before: Uuid, limit: u32) -> Result<Vec<BulkOperation>> {
    tx.rows(&PAGE, &[before.into(), i64::from(limit).into()], read_row).await
}

fn read_row(row: &Row<'_>) -> Result<BulkOperation> {
    let mut row = row.cursor();
    Ok(BulkOperation {
        op_id: OpId::from_uuid(row.id()?),
        list_id: row.id()?,
        started_at: row.time()?,
        finished_at: row.opt_time()?,
        state: {
            let word = row.text()?;
            let state = BulkState::ALL.into_iter().find(|state| state.as_str() == word);
            state.ok_or_else(|| Error::row("bulk_operations", word))?
        },
        matched: row.count()?,
        changed: row.count()?,
        skipped: row.count()?,
        failed: row.count()?,
        done_to: row.int()?,
        cancel_asked: row.int()? != 0,
        undo_of: row.opt_id()?.map(OpId::from_uuid),
        verb: row.text()?,
        task: row.text()?,
        operation: row.text()?,
        by_reason: row.text()?,
        fault: row.opt_text()?,
    })
}

static BEGIN: Sql = Sql::new(
    "/* bulk::begin */
     INSERT INTO bulk_operations
         (op_id, list_id, started_at, state, matched, skipped, undo_of, verb, task, operation, by_reason, holder, held_until)
     VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
);

async fn begin(tx: &mut Tx<'_>, new: &NewBulkOperation) -> Result<BulkOperation> {
    let absent = |what, id: String| Error::Absent { what, id };
    if let Some(plan) = new.plan
        && !plans::apply(tx, plan, new.op_id).await?
    {
        let made = plans::get(tx, plan).await?.and_then(|plan| plan.op_id);
        let made = made.ok_or_else(|| absent("plan", plan.to_string()))?;
        return get(tx, made).await?.ok_or_else(|| absent("operation", made.to_string()));
    }
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let params = [
        new.op_id.uuid().into(),
        new.plan.unwrap_or_else(|| new.op_id.uuid()).into(),
        tx.now().micros().into(),
        number(new.matched).into(),
        number(new.skipped).into(),
        new.undo_of.map(OpId::uuid).into(),
        new.verb.as_str().into(),
        new.task.as_str().into(),
        new.operation.as_str().into(),
        new.by_reason.as_str().into(),
        new.held.map(|(holder, _)| holder).into(),
        new.held.map_or(0, |(_, held_for)| tx.now().saturating_add(held_for).micros()).into(),
    ];
    tx.execute(&BEGIN, &params).await?;
    tx.wake();
    get(tx, new.op_id).await?.ok_or_else(|| absent("operation", new.op_id.to_string()))
}

static FREE: Sql = Sql::new(
    "/* bulk::free */
     SELECT op_id
     FROM bulk_operations
     WHERE state = 'running'
       AND held_until <= CAST(?1 AS BIGINT)
     ORDER BY held_until
     LIMIT 1
     {skip_locked}",
);
static TAKE: Sql = Sql::new(
    "/* bulk::take */
     UPDATE bulk_operations
     SET holder = ?2, held_until = ?3
     WHERE op_id = ?1
       AND state = 'running'
       AND held_until <= CAST(?4 AS BIGINT)",
);

async fn take(
    tx: &mut Tx<'_>,
    which: Option<OpId>,
    holder: Uuid,
    held_for: Duration,
) -> Result<Option<(BulkOperation, Uuid)>> {
    let now = tx.now();
    let free = match which {
        Some(id) => Some(id),
        None => tx.row(&FREE, &[now.micros().into()], |row| row.id(0).map(OpId::from_uuid)).await?,
    };
    let Some(id) = free else { return Ok(None) };
    let until = now.saturating_add(held_for).micros();
    let params = [id.uuid().into(), holder.into(), until.into(), now.micros().into()];
    if tx.execute(&TAKE, &params).await? == 0 {
        return Ok(None);
    }
    Ok(get(tx, id).await?.map(|operation| (operation, holder)))
}

static NOTE: Sql = Sql::new(
    "/* bulk::note */
     UPDATE bulk_operations
     SET done_to = ?4, changed = changed + ?5, skipped = skipped + ?6, failed = failed + ?7, by_reason = ?8, held_until = ?9
     WHERE op_id = ?1
       AND holder = ?2
       AND done_to = CAST(?3 AS BIGINT)
       AND state = 'running'",
);

async fn note(tx: &mut Tx<'_>, progress: &Progress, held_for: Duration) -> Result<Option<bool>> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let params = [
        progress.op_id.uuid().into(),
        progress.holder.into(),
        progress.from.into(),
        progress.done_to.into(),
        number(progress.changed).into(),
        number(progress.skipped).into(),
        number(progress.failed).into(),
        progress.by_reason.as_str().into(),
        tx.now().saturating_add(held_for).micros().into(),
    ];
    if tx.execute(&NOTE, &params).await? == 0 {
        return Ok(None);
    }
    let Some(operation) = get(tx, progress.op_id).await? else { return Ok(None) };
    settle(tx, operation.list_id, &progress.items).await?;
    Ok(Some(operation.cancel_asked))
}

static END: Sql = Sql::new(
    "/* bulk::end */
     UPDATE bulk_operations
     SET state = ?3, finished_at = ?4, fault = ?5, held_until = 0
     WHERE op_id = ?1
       AND holder = ?2
       AND state = 'running'",
);
static LET_GO: Sql = Sql::new(
    "/* bulk::let_go */
     UPDATE bulk_operations
     SET held_until = 0
     WHERE op_id = ?1
       AND holder = ?2",
);
static CANCEL_FREE: Sql = Sql::new(
    "/* bulk::cancel_free */
     UPDATE bulk_operations
     SET state = 'cancelled', finished_at = ?2
     WHERE op_id = ?1
       AND state = 'running'
       AND held_until <= CAST(?2 AS BIGINT)",
);
static ASK_TO_CANCEL: Sql = Sql::new(
    "/* bulk::ask_to_cancel */
     UPDATE bulk_operations
     SET cancel_asked = 1
     WHERE op_id = ?1
       AND state = 'running'",
);

/// Has people told that an operation has ended, and how.
async fn tell_of_end(tx: &mut Tx<'_>, ids: &Ids, op_id: OpId) -> Result<()> {
    let Some(ended) = get(tx, op_id).await? else { return Ok(()) };
    let BulkOperation { verb, changed, started_at, state, .. } = &ended;
    let notice = Notice::of_operation(op_id, verb, state.as_str(), *changed, *started_at);
    let now = tx.now();
    notifications::add(tx, ids, &notice, now).await.map(drop)
}

async fn cancel(tx: &mut Tx<'_>, ids: &Ids, op_id: OpId) -> Result<CancelOutcome> {
    let now = tx.now().micros();
    if tx.execute(&CANCEL_FREE, &[op_id.uuid().into(), now.into()]).await? > 0 {
        tell_of_end(tx, ids, op_id).await?;
        return Ok(CancelOutcome::Over(BulkState::Cancelled));
    }
    if tx.execute(&ASK_TO_CANCEL, &[op_id.uuid().into()]).await? > 0 {
        return Ok(CancelOutcome::Asked);
    }
    Ok(get(tx, op_id).await?.map_or(CancelOutcome::Absent, |operation| CancelOutcome::Over(operation.state)))
}
