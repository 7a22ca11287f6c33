//! What anybody may see. Nothing here writes.

use std::sync::Arc;

use redrive_core::id::{OpId, RunId};
use redrive_core::invariants::Attempt;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::run::{Run, Workload};
use redrive_core::time::Timestamp;

use crate::aggregates::{self, PartitionMetrics, RunMetrics};
use crate::attempts::{self, Running};
use crate::audit::{self, AuditedChange, Head, Operation, PastOperation, Verified};
use crate::cooldowns;
use crate::error::Result;
use crate::expiry;
use crate::failures::{self, PastFailure};
use crate::partitions::Page;
use crate::runs::{self, RunPage};
use crate::store::Inner;
use redrive_core::cooldown::Cooldown;

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

    pub async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        read!(self, "cooldowns", |tx, now| cooldowns::in_force(tx, *now))
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

    pub async fn run_metrics(&self, workload: Workload, failures: u32) -> Result<RunMetrics> {
        read!(self, "run metrics", |tx, workload, failures| aggregates::runs(tx, *workload, *failures))
    }

    pub async fn partition_metrics(&self) -> Result<PartitionMetrics> {
        read!(self, "partition metrics", |tx| aggregates::partitions(tx))
    }

    /// Operations, newest first, before sequence number `before`.
    pub async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<PastOperation>> {
        let before = before.unwrap_or(i64::MAX);
        read!(self, "operations", |tx, before, limit| audit::operations(tx, *before, *limit))
    }

    pub async fn operation(&self, id: OpId) -> Result<Option<Operation>> {
        read!(self, "operation", |tx, id| audit::operation(tx, *id))
    }

    /// An operation's changes in their order, after sequence number `after`.
    pub async fn changes(&self, id: OpId, after: i64, limit: u32) -> Result<Vec<(i64, AuditedChange)>> {
        read!(self, "changes", |tx, id, after, limit| audit::changes(tx, *id, *after, *limit))
    }

    pub async fn audit_head(&self) -> Result<Head> {
        read!(self, "audit head", |tx| audit::head(tx))
    }

    pub async fn verify_audit(&self) -> Result<Verified> {
        read!(self, "verify audit", |tx| audit::verify(tx))
    }
}
