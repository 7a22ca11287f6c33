//! Backfill: wants a partition for every day of a range, for every customer and query that the filter means.

use redrive_core::calendar;
use redrive_core::filter::{Filter, FilterError};
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::lane::Lane;
use redrive_core::partition::{self, ControlEvent, Event, Partition};
use redrive_core::refusal::{Reason, Refused};
use redrive_store::{Operation, Outcome};
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::plane::ControlPlane;
use crate::request::{Order, Watch};
use crate::shape::{Failed, Halt, Report};

const CHUNK: usize = 2000;

/// The days of a backfill: every customer and query, from one day to another.
struct Range {
    queries: Vec<(Source, CustomerId, QueryName)>,
    since: LogicalDate,
    until: LogicalDate,
}

impl Range {
    fn keys(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.queries.iter().flat_map(|(source, customer_id, query_name)| {
            calendar::days(self.since, self.until).map(|logical_date| PartitionKey {
                source: source.clone(),
                customer_id: customer_id.clone(),
                query_name: query_name.clone(),
                logical_date,
            })
        })
    }
}

impl ControlPlane {
    /// How many partitions a backfill is about.
    pub fn backfill_size(&self, filter: &Filter) -> Result<u64> {
        let range = self.range(filter)?;
        let queries = u64::try_from(range.queries.len()).unwrap_or(u64::MAX);
        Ok(queries.saturating_mul(calendar::count(range.since, range.until)))
    }

    /// Wants what is not there; with `force_pending`, also what is there and finished.
    pub async fn backfill(
        &self,
        filter: &Filter,
        force_pending: bool,
        order: &Order,
        watch: Watch<'_>,
    ) -> Result<Report> {
        let range = self.range(filter)?;
        let filters = serde_json::to_string(filter).unwrap_or_default();
        let mut flags = order.flags();
        flags["force_pending"] = force_pending.into();
        let operation = self.ordered(order, filters, flags);
        let mut report = Report::new("backfill", order.dry_run);
        let mut keys = range.keys();
        loop {
            let chunk: Vec<PartitionKey> = keys.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            report.matched += u64::try_from(chunk.len()).unwrap_or(0);
            let done = match order.dry_run {
                true => self.foresee_backfill(chunk, force_pending, &mut report).await,
                false => self.backfill_chunk(chunk, force_pending, &operation, &mut report).await,
            };
            if let Err(error) = done {
                report.halt = Some(Halt::Fault(error));
                break;
            }
            (watch.progress)(report.matched);
        }
        if !report.changed.is_empty() && !order.dry_run {
            report.op_id = Some(operation.op_id);
            self.tell_head().await;
        }
        Ok(report)
    }

    /// What a filter means: the days it gives, and the customers and queries it names or the source's configuration has.
    fn range(&self, filter: &Filter) -> Result<Range> {
        filter.check_for_change(self.insight.bounds())?;
        let (Some(since), Some(until)) = (filter.since, filter.until) else {
            return Err(Error::Usage("a backfill needs --since and --until, or --logical-date".to_owned()));
        };
        let source = filter.source.clone().ok_or_else(|| Error::Usage("a backfill needs --source".to_owned()))?;
        let latest = self.insight.bounds().latest;
        if until > latest {
            return Err(FilterError::TooLate { flag: "--until", date: until, latest }.into());
        }
        let rules = self.insight.sources().of(&source);
        let customers = named(filter.customer_id.clone(), &rules.customers, &source, "--customer-id", "customers")?;
        let queries = named(filter.query_name.clone(), &rules.queries, &source, "--query-name", "queries")?;
        let mut all = Vec::new();
        for customer in &customers {
            all.extend(queries.iter().map(|query| (source.clone(), customer.clone(), query.clone())));
        }
        all.sort_unstable();
        all.dedup();
        Ok(Range { queries: all, since, until })
    }

    async fn backfill_chunk(
        &self,
        keys: Vec<PartitionKey>,
        force_pending: bool,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<()> {
        let now = self.now();
        let wanted: Vec<Partition> = keys.into_iter().map(|key| Partition::new(key, Lane::Backfill, now)).collect();
        let new = self.store.enqueue(Some(operation), wanted.clone()).await?;
        let mut there = Vec::new();
        for (partition, new) in wanted.iter().zip(new) {
            if new { report.change(None, partition) } else { there.push(partition.state.key.clone()) }
        }
        if !force_pending {
            for key in there {
                report.skip(key, Refused::NoOp(Reason::Exists));
            }
            return Ok(());
        }
        let found = self.view().partitions_of(there).await?;
        let items: Vec<_> = found
            .into_iter()
            .flatten()
            .map(|partition| {
                let policy = &self.insight.sources().of(&partition.state.key.source).retry;
                (partition, ControlEvent::Backfill { policy, force_pending })
            })
            .collect();
        let keys: Vec<_> = items.iter().map(|(partition, _)| partition.state.key.clone()).collect();
        for (outcome, key) in self.store.commit(operation, items).await?.into_iter().zip(keys) {
            match outcome {
                Outcome::Changed { before, after } => report.change(Some(&before), &after),
                Outcome::Refused(refused) => report.skip(key, refused),
                Outcome::Overtaken(_) => report.failed.push(Failed {
                    key,
                    error: "it is being changed by somebody else; run the command again".to_owned(),
                }),
            }
        }
        Ok(())
    }

    async fn foresee_backfill(&self, keys: Vec<PartitionKey>, force_pending: bool, report: &mut Report) -> Result<()> {
        let found = self.view().partitions_of(keys.clone()).await?;
        for (key, found) in keys.into_iter().zip(found) {
            let Some(before) = found else {
                report.change(None, &Partition::new(key, Lane::Backfill, self.now()));
                continue;
            };
            let policy = &self.insight.sources().of(&key.source).retry;
            let event = ControlEvent::Backfill { policy, force_pending };
            match partition::apply(&before, Event::Control(event), self.now()) {
                Ok(change) => report.change(Some(&before), &change.after),
                Err(refused) => report.skip(key, refused),
            }
        }
        Ok(())
    }
}

/// The one value a filter names, or all that the source's configuration has.
fn named<T: Clone>(one: Option<T>, all: &[T], source: &Source, flag: &str, key: &str) -> Result<Vec<T>> {
    match (one, all) {
        (Some(one), _) => Ok(vec![one]),
        (None, []) => Err(Error::Usage(format!("give {flag}: the configuration of source {source} names no {key}"))),
        (None, all) => Ok(all.to_vec()),
    }
}
