//! The data plane's handle: it can claim, beat, and record what happened. It has no way from failed to pending.

use std::sync::Arc;

use redrive_core::cooldown::Cooldown;
use redrive_core::time::Timestamp;
use tokio::sync::watch;

use crate::cooldowns;
use crate::error::Result;
use crate::store::Inner;
use crate::view::View;

/// The data plane's handle.
///
/// It can judge an attempt:
///
/// ```
/// async fn judge(
///     data: redrive_store::DataStore, run: &redrive_core::run::Run, judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     data.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// It cannot requeue a partition:
///
/// ```compile_fail
/// async fn requeue(
///     data: redrive_store::DataStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     data.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct DataStore {
    pub(crate) inner: Arc<Inner>,
}

impl DataStore {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    pub fn wakeups(&self) -> watch::Receiver<u64> {
        self.inner.db.wakeups()
    }

    /// Holds back a source, or one customer of it, until then.
    pub async fn cool_down(&self, cooldown: Cooldown) -> Result<()> {
        let cooldown = Arc::new(cooldown);
        self.inner
            .db
            .write("cool down", move |tx| {
                let cooldown = Arc::clone(&cooldown);
                Box::pin(async move { cooldowns::set(tx, &cooldown).await })
            })
            .await
    }
}
