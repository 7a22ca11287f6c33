//! What anybody may see. Nothing here writes.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::invariants::Attempt;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::run::Run;
use redrive_core::time::Timestamp;

use crate::attempts::{self, Running};
use crate::error::Result;
use crate::expiry;
use crate::failures::{self, PastFailure};
use crate::partitions::Page;
use crate::runs::{self, RunPage};
use crate::store::Inner;

#[derive(Debug, Clone)]
pub struct View {
    pub(crate) inner: Arc<Inner>,
}

/// Runs a function over a read transaction with its arguments moved in.
macro_rules! read {
    ($self:ident, $name:literal, |$tx:ident $(, $arg:ident)*| $body:expr) => {{
        $(let $arg = Arc::new($arg);)*
        $self.inner.db.read($name, move |$tx| {
            $(let $arg = Arc::clone(&$arg);)*
            Box::pin(async move { $body.await })
        }).await
    }};
}
pub(crate) use read;

impl View {
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Where the database is, without its password.
    pub fn place(&self) -> &str {
        &self.inner.db.place
    }

    /// Every attempt of a partition, oldest first.
    pub async fn attempts(&self, key: &PartitionKey) -> Result<Vec<Run>> {
        let key = key.clone();
        read!(self, "attempts", |tx, key| runs::of_partition(tx, &key))
    }

    /// The same of many partitions, each with its own in the order of the keys. A key stands there once.
    pub async fn attempts_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Vec<Run>>> {
        read!(self, "attempts of many", |tx, keys| runs::of_partitions(tx, &keys))
    }

    /// A page of partitions in key order, each with what the invariants ask of its attempts.
    pub async fn partitions_with_attempts(&self, page: Page) -> Result<Vec<(Partition, Vec<Attempt>)>> {
        read!(self, "partitions with attempts", |tx, page| attempts::page(tx, &page))
    }

    /// Extractions that are under way, in the order of their subjects, after subject `after`.
    pub async fn running_attempts(&self, after: String, limit: u32) -> Result<Vec<Running>> {
        read!(self, "running attempts", |tx, after, limit| attempts::running(tx, &after, *limit))
    }

    pub async fn run(&self, id: RunId) -> Result<Option<Run>> {
        read!(self, "run", |tx, id| runs::get(tx, *id))
    }

    /// Runs whose lease has passed and that nobody has ended yet, longest ago first.
    pub async fn overdue(&self, limit: u32) -> Result<Vec<Run>> {
        let now = self.inner.now();
        read!(self, "overdue", |tx, now, limit| expiry::overdue(tx, *now, *limit))
    }

    /// A page of runs, newest first.
    pub async fn runs(&self, page: RunPage) -> Result<Vec<Run>> {
        read!(self, "runs", |tx, page| runs::page(tx, &page))
    }

    /// The failed tries of a run, oldest first.
    pub async fn failures(&self, id: RunId) -> Result<Vec<PastFailure>> {
        read!(self, "failures", |tx, id| failures::of_run(tx, *id))
    }
}
