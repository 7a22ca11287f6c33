//! What anybody may see. Nothing here writes.

use std::sync::Arc;

use redrive_core::id::OpId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::aggregates::{self, PartitionMetrics, RunMetrics};
use crate::audit::{self, AuditedChange, Head, Operation, PastOperation, Verified};
use crate::cooldowns;
use crate::error::Result;
use crate::store::Inner;
use redrive_core::cooldown::Cooldown;

#[derive(Debug, Clone)]
pub struct View {
    pub(crate) inner: Arc<Inner>,
}

/// Runs a function over a read transaction with its arguments moved in.
macro_rules! read {
    ($self:ident, $name:literal, |$tx:ident $(, $arg:ident)*| $body:expr) => {
        read!($self.read, $name, |$tx $(, $arg)*| $body)
    };
    ($self:ident.$kind:ident, $name:literal, |$tx:ident $(, $arg:ident)*| $body:expr) => {{
        $(let $arg = Arc::new($arg);)*
        $self.inner.db.$kind($name, move |$tx| {
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

    pub async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        read!(self, "cooldowns", |tx, now| cooldowns::in_force(tx, *now))
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
