//! The data plane's handle: it can claim, beat, and record what happened. It has no way from failed to pending.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::claim::{self, ClaimedPartition, PartitionClaim, Rotation};
use crate::cooldowns::{self, Cooldown};
use crate::error::Result;
use crate::stanzas::{self, NewFile, NewStanza};
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

    /// Claims partitions and begins a run for each. The rotation goes into the next claim.
    pub async fn claim_partitions(&self, claim: PartitionClaim) -> Result<(Vec<ClaimedPartition>, Rotation)> {
        let now = self.inner.now();
        let (inner, claim) = (Arc::clone(&self.inner), Arc::new(claim));
        self.inner
            .db
            .write("claim partitions", move |tx| {
                let (inner, claim) = (Arc::clone(&inner), Arc::clone(&claim));
                Box::pin(async move { claim::claim(tx, &claim, &inner.ids, now).await })
            })
            .await
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

    /// The id of a file of a run; the same on every retry.
    pub async fn file(&self, run_id: RunId, file: NewFile) -> Result<Uuid> {
        let id = self.inner.ids.run(self.inner.now()).uuid();
        let file = Arc::new(file);
        self.inner
            .db
            .write("file", move |tx| {
                let file = Arc::clone(&file);
                Box::pin(async move { stanzas::file(tx, run_id, &file, id).await })
            })
            .await
    }

    /// Adds stanzas that are not there yet; gives how many were new.
    pub async fn add_stanzas(&self, run_id: RunId, stanzas: Vec<NewStanza>) -> Result<u64> {
        let now = self.inner.now();
        let (inner, stanzas) = (Arc::clone(&self.inner), Arc::new(stanzas));
        self.inner
            .db
            .write("add stanzas", move |tx| {
                let (inner, stanzas) = (Arc::clone(&inner), Arc::clone(&stanzas));
                Box::pin(async move { stanzas::insert(tx, run_id, &stanzas, &inner.ids, now).await })
            })
            .await
    }
}
