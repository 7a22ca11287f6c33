//! `bench state`: what operators and the daemon do to many partitions.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use redrive_control::{Audit, ControlPlane, Request, Sink, Sources, Verb, Watch};
use redrive_core::filter::Filter;
use redrive_core::partition::Status;
use redrive_core::time::Timestamp;
use redrive_store::raw::{RawUrl, S3Options};
use redrive_store::statements::{self, For};
use redrive_store::{DueBand, DueQuery, Page, Store, StoreUrl};
use serde::Serialize;

use crate::figures::{Summary, alone, compared};
use crate::flags::BenchState;
use crate::measure::{OnPhase, millis, percentiles, phase, rate, ratio};
use crate::scratch::Scratch;
use crate::state_rows::{self, CLAIMABLE, FAILED_AT, OURS, PLAIN, Rows, SOURCE};
use crate::{Error, Result, plain};

const LOOKS: u32 = 200;

#[derive(Debug, Serialize)]
pub struct StateFigures {
    bench: &'static str,
    store: &'static str,
    partitions: u32,
    failed: u32,
    rows: u32,
    retry_per_s: f64,
    /// One UPDATE and one INSERT … SELECT into the audit.
    baseline_retry_per_s: Option<f64>,
    retry_ratio: Option<f64>,
    /// The same with the rows that make the partitions claimable, as a retry has to write them.
    same_effect_retry_per_s: Option<f64>,
    same_effect_ratio: Option<f64>,
    inspect_key_p50_ms: f64,
    inspect_page_p50_ms: f64,
    due_found: u32,
    due_ms: f64,
    due_plan: Vec<String>,
    pub(crate) sequential_scan: bool,
}

pub async fn run(args: &BenchState, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<StateFigures> {
    let scratch = Scratch::make(url, args.common.force).await?;
    let work = async |scratch: &Scratch| {
        let store = scratch.open(4).await?;
        measure(store, &scratch.url, args, on_phase).await
    };
    scratch.during(work).await
}

async fn measure(store: Store, url: &StoreUrl, args: &BenchState, on_phase: OnPhase<'_>) -> Result<StateFigures> {
    let failed = args.failed.unwrap_or(args.partitions).max(args.due);
    let all = args.rows.unwrap_or(failed.saturating_mul(10));
    let rows = Rows { retried: args.partitions, failed, due: args.due, all };
    phase(on_phase, "making rows", state_rows::make(url, rows)).await?;
    let (due_found, due) = phase(on_phase, "due", due(&store, args.due)).await?;
    let plan = plan(url).await?;
    let (looks, _) = phase(on_phase, "inspect", inspect(&store)).await?;
    let plainly = match args.common.baseline {
        true => {
            let two = phase(on_phase, "plain retry", plain_retry(url, PLAIN, false)).await?.1;
            Some((two, phase(on_phase, "plain retry, claimable", plain_retry(url, CLAIMABLE, true)).await?.1))
        }
        false => None,
    };
    let (changed, retry) = phase(on_phase, "retry", retry(&store)).await?;
    if changed != args.partitions {
        return Err(Error::Failed(format!("{changed} of {} partitions were retried", args.partitions)));
    }
    let count = u64::from(args.partitions);
    Ok(StateFigures {
        bench: "state",
        store: store.kind(),
        partitions: args.partitions,
        failed,
        rows: all,
        retry_per_s: rate(count, retry),
        baseline_retry_per_s: plainly.map(|(two, _)| rate(count, two)),
        retry_ratio: plainly.map(|(two, _)| ratio(rate(count, retry), rate(count, two))),
        same_effect_retry_per_s: plainly.map(|(_, three)| rate(count, three)),
        same_effect_ratio: plainly.map(|(_, three)| ratio(rate(count, retry), rate(count, three))),
        inspect_key_p50_ms: millis(looks.0),
        inspect_page_p50_ms: millis(looks.1),
        due_found,
        due_ms: millis(due),
        sequential_scan: plan.iter().any(|line| scans_all(line)),
        due_plan: plan,
    })
}

/// Retries every failed partition of one customer, as `state retry --force --allow-missing-raw` does.
async fn retry(store: &Store) -> Result<u32> {
    let nowhere = std::env::temp_dir().join(format!("redrive_bench_{}_raw", std::process::id()));
    let raw = Sink::new(RawUrl::File(nowhere), S3Options::default());
    let earliest = "2015-01-01".parse().map_err(Error::failed)?;
    let plane = ControlPlane::new(store.control(), raw, Sources::default(), earliest);
    let request = Request {
        verb: Verb::Retry { clear_terminal: true, allow_missing_raw: true, stale: false, grant: None },
        filter: filter(OURS, Some(Status::Failed))?,
        audit: Audit { force: true, ..Audit::new("bench", "bench state") },
        limit: None,
    };
    let watch = Watch { cancelled: &AtomicBool::new(false), progress: &|_| {}, stop_after: None };
    let report = plane.operate(&request, watch).await?;
    Ok(u32::try_from(report.count_changed())?)
}

fn filter(customer: &str, status: Option<Status>) -> Result<Filter> {
    Ok(Filter { status, ..Filter::exact(Some(SOURCE), Some(customer), None).map_err(Error::failed)? })
}

/// What the store is compared with: one update and one insert into the audit, in one transaction; with `claimable` also
/// the control rows without which no worker would ever run what was retried.
async fn plain_retry(url: &StoreUrl, customer: &str, claimable: bool) -> Result<()> {
    let hash = match url {
        StoreUrl::Sqlite(_) => "x'00'",
        StoreUrl::Postgres(_) => "'\\x00'",
    };
    let of_customer = format!("source = '{SOURCE}' AND customer_id = '{customer}'");
    let these = format!("FROM series s JOIN partitions p ON p.series_id = s.series_id WHERE {of_customer}");
    let control = match claimable {
        true => format!(
            "INSERT INTO partition_control (series_id, period, source_no, scope, lane, queued_at) \
             SELECT p.series_id, p.period, s.source_no, s.scope, 'retry', {FAILED_AT} {these};"
        ),
        false => String::new(),
    };
    // Two runs of this must not meet in the audit's sequence.
    let first = if claimable { 2_000_000_000 } else { 1_000_000_000 };
    plain::execute(
        url,
        &format!(
            "BEGIN; UPDATE partitions SET status = 'pending', updated_at = {FAILED_AT} + 1, version = version + 1 \
             WHERE series_id IN (SELECT series_id FROM series WHERE {of_customer}) AND status = 'failed'; {control} \
             INSERT INTO operation_changes (seq, operation_seq, series_id, period, before, after, hash) \
             SELECT {first} + row_number() OVER (), {first}, p.series_id, p.period, \
             '{{\"status\":\"failed\"}}', '{{\"status\":\"pending\"}}', {hash} {these}; COMMIT"
        ),
    )
    .await
}

/// The middle of many looks at one key, and at one page of fifty.
async fn inspect(store: &Store) -> Result<(Duration, Duration)> {
    let view = store.view();
    let first = view.partitions(Page { filter: filter("done", None)?, limit: 1, ..Page::default() }).await?;
    let key = first.first().map(|partition| partition.state.key.clone());
    let (mut keys, mut pages) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        if let Some(key) = &key {
            let start = Instant::now();
            view.partition(key).await?;
            keys.push(start.elapsed());
        }
        let page = Page { filter: filter(OURS, Some(Status::Failed))?, limit: 50, ..Page::default() };
        let start = Instant::now();
        view.partitions(page).await?;
        pages.push(start.elapsed());
    }
    Ok((percentiles(keys).0, percentiles(pages).0))
}

/// Finds what is due, as the daemon does.
async fn due(store: &Store, limit: u32) -> Result<u32> {
    let view = store.view();
    let mut found = 0;
    for band in view.due_bands().await? {
        found += view.due(query(band, limit)).await?.len();
    }
    Ok(u32::try_from(found)?)
}

fn query(band: DueBand, limit: u32) -> DueQuery {
    DueQuery {
        band,
        decided_by: Timestamp::from_micros(FAILED_AT - 1),
        created_after: Timestamp::MIN,
        after: None,
        limit,
    }
}

/// How the database goes about it.
async fn plan(url: &StoreUrl) -> Result<Vec<String>> {
    let long_ago = i64::MIN;
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || {
                let connection = plain::sqlite(&path)?;
                let sql = format!("EXPLAIN QUERY PLAN {}", statements::due(For::Sqlite));
                let mut statement = connection.prepare(&sql)?;
                let params = rusqlite::params![SOURCE, 1, FAILED_AT - 1, long_ago, long_ago, 0, 0, 1000];
                let lines = statement.query_map(params, |row| row.get(3))?;
                Ok(lines.collect::<Result<_, _>>()?)
            })
            .await?
        }
        StoreUrl::Postgres(url) => {
            let client = plain::postgres(url).await?;
            // As the store's own sessions are set.
            client.batch_execute(statements::POSTGRES_SESSION).await?;
            let sql = format!("EXPLAIN {}", statements::due(For::Postgres));
            let (before, first, limit) = (FAILED_AT - 1, 0i64, 1000i64);
            let rows =
                client.query(&sql, &[&SOURCE, &1i64, &before, &long_ago, &long_ago, &first, &first, &limit]).await?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        }
    }
}

/// Whether a line of a plan reads all partitions.
fn scans_all(line: &str) -> bool {
    line.contains("Seq Scan on partitions ") || line.trim_start().starts_with("SCAN p")
}

impl StateFigures {
    pub(crate) fn summary(&self) -> Summary {
        let Self { store, partitions, failed, rows, .. } = self;
        let (plain, same_effect) = (self.baseline_retry_per_s, self.same_effect_retry_per_s);
        let plan = self.due_plan.iter().map(|line| format!("  {line}"));
        Summary {
            heading: format!("{partitions} of {failed} failed partitions, {rows} in all, on {store}"),
            columns: ["", "redrive", "plain SQL", "of it"],
            rows: vec![
                compared("retry, audited", "/s", self.retry_per_s, plain, self.retry_ratio),
                compared("  and made claimable", "/s", self.retry_per_s, same_effect, self.same_effect_ratio),
                alone("inspect one key, p50", format!("{} ms", self.inspect_key_p50_ms)),
                alone("inspect a page of 50, p50", format!("{} ms", self.inspect_page_p50_ms)),
                alone(format!("select {} due", self.due_found), format!("{} ms", self.due_ms)),
            ],
            notes: [String::new(), "plan of the selection:".to_owned()].into_iter().chain(plan).collect(),
        }
    }
}
