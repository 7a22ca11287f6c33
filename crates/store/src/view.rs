//! What anybody may see. Nothing here writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::calendar;
use redrive_core::filter::Filter;
use redrive_core::id::{OpId, RunId};
use redrive_core::key::{LogicalDate, PartitionKey, Source};
use redrive_core::partition::Partition;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::aggregates::{self, PartitionMetrics, RunMetrics};
use crate::audit::{self, AuditedChange, Head, Operation, PastOperation, Verified};
use crate::backlog::{self, Backlog};
use crate::cooldowns::{self, Cooldown};
use crate::error::Result;
use crate::partitions::{self, Band, Page, Reach, Stretch};
use crate::rejected;
use crate::stanzas::{self, Stanza};
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

    pub async fn partition(&self, key: &PartitionKey) -> Result<Option<Partition>> {
        let key = key.clone();
        read!(self, "partition", |tx, key| partitions::get(tx, &key))
    }

    /// Partitions by their keys, in the same order; none where there is none.
    pub async fn partitions_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Option<Partition>>> {
        let keys = Arc::new(keys);
        self.inner
            .db
            .read("partitions of", move |tx| {
                let keys = Arc::clone(&keys);
                Box::pin(async move {
                    let mut found = Vec::with_capacity(keys.len());
                    for key in keys.iter() {
                        found.push(partitions::get(tx, key).await?);
                    }
                    Ok(found)
                })
            })
            .await
    }

    /// The days in a stretch that have no partition, in order.
    pub async fn missing(&self, stretch: Stretch) -> Result<Vec<LogicalDate>> {
        let (since, until) = (stretch.since, stretch.until);
        let present = read!(self, "missing", |tx, stretch| partitions::days(tx, &stretch))?;
        let Some(present) = present else { return Ok(vec![]) };
        let mut present = present.into_iter().peekable();
        Ok(calendar::days(since, until).filter(|day| present.next_if_eq(day).is_none()).collect())
    }

    /// A page of partitions in key order.
    pub async fn partitions(&self, page: Page) -> Result<Vec<Partition>> {
        read!(self, "partitions", |tx, page| partitions::page(tx, &page))
    }

    pub async fn count(&self, filter: &Filter) -> Result<u64> {
        let filter = filter.clone();
        read!(self, "count", |tx, filter| partitions::count(tx, &filter))
    }

    /// Which stretches of failures there are that automation might retry.
    pub async fn bands(&self) -> Result<Vec<Band>> {
        read!(self, "bands", |tx| partitions::bands(tx))
    }

    /// The failures in a stretch that backoff may have let go, longest ago first.
    pub async fn reach(&self, reach: Reach) -> Result<Vec<Partition>> {
        read!(self, "reach", |tx, reach| partitions::reach(tx, &reach))
    }

    /// Which stretches of rejected reprocesses there are that automation might ask for again.
    pub async fn rejected_bands(&self) -> Result<Vec<Band>> {
        read!(self, "rejected bands", |tx| rejected::bands(tx))
    }

    /// The rejected reprocesses in a stretch, in key order after `after`.
    pub async fn rejected(&self, band: Band, after: Option<PartitionKey>, limit: u32) -> Result<Vec<Partition>> {
        read!(self, "rejected", |tx, band, after, limit| rejected::page(tx, &band, Option::as_ref(&after), *limit))
    }

    pub async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        read!(self, "cooldowns", |tx, now| cooldowns::in_force(tx, *now))
    }

    /// What is queued of these sources, under the limits given, and what of them is under way.
    pub async fn backlog(&self, sources: Vec<Source>, max_in_flight: BTreeMap<Source, u32>) -> Result<Backlog> {
        let now = self.inner.now();
        read!(self, "backlog", |tx, sources, max_in_flight, now| backlog::backlog(tx, &sources, &max_in_flight, *now))
    }

    pub async fn stanzas(&self, id: RunId) -> Result<Vec<Stanza>> {
        read!(self, "stanzas", |tx, id| stanzas::of_run(tx, *id))
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
