//! The control plane's handle: it can want, withhold and requeue. It has no way to write a run_id, a verdict or raw data.

use std::sync::Arc;

use redrive_core::id::{OpId, RunId};
use redrive_core::key::{CustomerId, Source};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Run};
use redrive_core::time::Timestamp;

use crate::audit::{self, Operation};
use crate::cooldowns;
use crate::error::{Error, Result};
use crate::runs::{self, NewRun, Submitted};
use crate::store::Inner;
use crate::view::View;
use redrive_core::cooldown::Cooldown;

/// The control plane's handle.
///
/// It can requeue a partition:
///
/// ```
/// async fn requeue(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
///
/// It cannot judge one:
///
/// ```compile_fail
/// async fn judge(
///     control: redrive_store::ControlStore, run: &redrive_core::run::Run,
///     judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     control.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// Nor can it be given an event of the data plane:
///
/// ```compile_fail
/// async fn claim(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::DataEvent)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ControlStore {
    pub(crate) inner: Arc<Inner>,
}

impl ControlStore {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    pub fn new_operation_id(&self) -> OpId {
        self.inner.ids.operation(self.inner.now())
    }

    /// Ends cooldowns before their time, with a row in the audit trail; gives those that were in force.
    pub async fn lift_cooldowns(
        &self,
        operation: &Operation,
        source: &Source,
        customer: Option<&CustomerId>,
    ) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        let work = Arc::new((operation.clone(), source.clone(), customer.cloned()));
        let lifted = self
            .inner
            .db
            .write("lift cooldowns", move |tx| {
                let work = Arc::clone(&work);
                Box::pin(async move {
                    let (operation, source, customer) = &*work;
                    let lifted = cooldowns::lift(tx, source, customer.as_ref(), now).await?;
                    if !lifted.is_empty() {
                        audit::record_alone(tx, operation).await?;
                        tx.notify().await?;
                    }
                    Ok(lifted)
                })
            })
            .await?;
        self.inner.db.announce();
        Ok(lifted)
    }

    /// Submits runs in one transaction.
    pub async fn submit(&self, runs: Vec<NewRun>) -> Result<Vec<Submitted>> {
        runs.iter().try_for_each(NewRun::check)?;
        let now = self.inner.now();
        let runs: Vec<_> = runs.into_iter().map(|run| (self.inner.ids.run(now), run)).collect();
        let runs = Arc::new(runs);
        let submitted = self
            .inner
            .db
            .write("submit runs", move |tx| {
                let runs = Arc::clone(&runs);
                Box::pin(async move { runs::insert(tx, &runs).await })
            })
            .await?;
        self.inner.db.announce();
        Ok(submitted)
    }

    /// Grants a dead run one more attempt.
    pub async fn retry_run(&self, id: RunId) -> Result<Run> {
        self.move_run("retry run", id, run::Event::RetryRequested).await
    }

    /// Ends a run that is not finished; its worker's result will be refused.
    pub async fn cancel_run(&self, id: RunId, by: &str) -> Result<Run> {
        self.move_run("cancel run", id, run::Event::Cancelled { by: by.to_owned() }).await
    }

    async fn move_run(&self, name: &'static str, id: RunId, event: run::Event) -> Result<Run> {
        let now = self.inner.now();
        let run = self
            .inner
            .db
            .write(name, move |tx| {
                let event = event.clone();
                Box::pin(async move {
                    let absent = || Error::Absent { what: "run", id: id.to_string() };
                    let run = runs::get_locked(tx, id).await?.ok_or_else(absent)?;
                    // Neither event asks the policy anything.
                    let change = run::apply(&run, event, now, &RetryPolicy::process())?;
                    runs::write(tx, std::slice::from_ref(&change)).await?;
                    Ok(change.after)
                })
            })
            .await?;
        self.inner.db.announce();
        Ok(run)
    }
}
