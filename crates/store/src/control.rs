//! The control plane's handle: it can want, withhold and requeue. It has no way to write a run_id, a verdict or raw data.

use std::sync::Arc;

use redrive_core::id::OpId;
use redrive_core::key::{CustomerId, Source};
use redrive_core::time::Timestamp;

use crate::audit::{self, Operation};
use crate::cooldowns;
use crate::error::Result;
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
                        tx.wake();
                    }
                    Ok(lifted)
                })
            })
            .await?;
        Ok(lifted)
    }
}
