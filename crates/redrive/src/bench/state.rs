//! `bench state`: what operators and the daemon do to many partitions.

use std::time::{Duration, Instant};

use redrive_core::filter::Filter;
use redrive_core::partition::{ControlEvent, Status};
use redrive_core::retry::RetryPolicy;
use redrive_core::time::Timestamp;
use redrive_store::statements::{self, For};
use redrive_store::{Band, Operation, Outcome, Page, Reach, Store, StoreUrl};
use serde::Serialize;

use super::measure::{millis, percentiles, phase, rate, ratio};
use super::plain;
use super::scratch::Scratch;
use super::state_rows::{self, FAILED_AT, OURS, PLAIN, Rows, SOURCE};
use crate::cli::{BenchState, Format};
use crate::commands::Context;
use crate::exit::Exit;
use crate::output;

/// How many partitions go into one transaction.
const CHUNK: u32 = 2000;
const LOOKS: u32 = 200;

#[derive(Debug, Serialize)]
struct Figures {
    bench: &'static str,
    store: &'static str,
    partitions: u32,
    failed: u32,
    rows: u32,
    retry_per_s: f64,
    baseline_retry_per_s: Option<f64>,
    retry_ratio: Option<f64>,
    inspect_key_p50_ms: f64,
    inspect_page_p50_ms: f64,
    due_found: u32,
    due_ms: f64,
    due_plan: Vec<String>,
    sequential_scan: bool,
}

pub async fn run(args: &BenchState, context: &Context) -> anyhow::Result<Exit> {
    let scratch = Scratch::make(&args.common, context).await?;
    let work = async |scratch: &Scratch| {
        let store = scratch.open(4).await?;
        measure(store, &scratch.url, args, context.global.quiet).await
    };
    let figures = scratch.during(work).await?;
    show(&figures, context.global.output)?;
    Ok(if figures.sequential_scan { Exit::SomeFailed } else { Exit::Done })
}

async fn measure(store: Store, url: &StoreUrl, args: &BenchState, quiet: bool) -> anyhow::Result<Figures> {
    let failed = args.failed.unwrap_or(args.partitions).max(args.due);
    let all = args.rows.unwrap_or(failed.saturating_mul(10));
    let rows = Rows { retried: args.partitions, failed, due: args.due, all };
    phase(quiet, "making rows", state_rows::make(url, rows)).await?;
    let (due_found, due) = phase(quiet, "due", due(&store, args.due)).await?;
    let plan = plan(url).await?;
    let (looks, _) = phase(quiet, "inspect", inspect(&store)).await?;
    let plainly = match args.common.baseline {
        true => Some(phase(quiet, "plain retry", plain_retry(url)).await?.1),
        false => None,
    };
    let (changed, retry) = phase(quiet, "retry", retry(&store)).await?;
    anyhow::ensure!(changed == args.partitions, "{changed} of {} partitions were retried", args.partitions);
    let count = u64::from(args.partitions);
    Ok(Figures {
        bench: "state",
        store: store.kind(),
        partitions: args.partitions,
        failed,
        rows: all,
        retry_per_s: rate(count, retry),
        baseline_retry_per_s: plainly.map(|took| rate(count, took)),
        retry_ratio: plainly.map(|took| ratio(rate(count, retry), rate(count, took))),
        inspect_key_p50_ms: millis(looks.0),
        inspect_page_p50_ms: millis(looks.1),
        due_found,
        due_ms: millis(due),
        sequential_scan: plan.iter().any(|line| scans_all(line)),
        due_plan: plan,
    })
}

/// Retries every failed partition of one customer as `state retry` does: a page is read while the one before is written.
async fn retry(store: &Store) -> anyhow::Result<u32> {
    let (control, view, policy) = (store.control(), store.view(), RetryPolicy::partitions());
    let operation = Operation {
        op_id: control.new_operation_id(),
        at: control.now(),
        actor: "bench".to_owned(),
        command: "bench state".to_owned(),
        filters: "{}".to_owned(),
        flags: "{}".to_owned(),
        reason: None,
    };
    let mut page = Page { filter: filter(OURS, Some(Status::Failed))?, limit: CHUNK, ..Page::default() };
    let mut next = view.partitions(page.clone()).await?;
    let mut changed = 0;
    while let Some(last) = next.last() {
        page.after = Some(last.state.key.clone());
        let event = ControlEvent::Retry { policy: &policy, clear_terminal: true, stale: false };
        let items = next.into_iter().map(|partition| (partition, event.clone())).collect();
        let (outcomes, following) = tokio::join!(control.commit(&operation, items), view.partitions(page.clone()));
        let made = outcomes?.iter().filter(|outcome| matches!(outcome, Outcome::Changed { .. })).count();
        changed += u32::try_from(made)?;
        next = following?;
    }
    Ok(changed)
}

fn filter(customer: &str, status: Option<Status>) -> anyhow::Result<Filter> {
    Ok(Filter { status, ..Filter::exact(Some(SOURCE), Some(customer), None)? })
}

/// What the store is compared with: one update and one insert into the audit, in one transaction.
async fn plain_retry(url: &StoreUrl) -> anyhow::Result<()> {
    let hash = match url {
        StoreUrl::Sqlite(_) => "x'00'",
        StoreUrl::Postgres(_) => "'\\x00'",
    };
    let op = match url {
        StoreUrl::Sqlite(_) => "x'00000000000000000000000000000000'",
        StoreUrl::Postgres(_) => "'00000000-0000-0000-0000-000000000000'::uuid",
    };
    plain::execute(
        url,
        &format!(
            "BEGIN; UPDATE partitions SET status = 'pending', updated_at = {FAILED_AT} + 1, version = version + 1 \
             WHERE source = '{SOURCE}' AND customer_id = '{PLAIN}' AND status = 'failed'; \
             INSERT INTO operation_changes (seq, op_id, source, customer_id, query_name, logical_date, before, after, hash) \
             SELECT 1000000000 + row_number() OVER (), {op}, source, customer_id, query_name, logical_date, \
             '{{\"status\":\"failed\"}}', '{{\"status\":\"pending\"}}', {hash} FROM partitions \
             WHERE source = '{SOURCE}' AND customer_id = '{PLAIN}'; COMMIT"
        ),
    )
    .await
}

/// The middle of many looks at one key, and at one page of fifty.
async fn inspect(store: &Store) -> anyhow::Result<(Duration, Duration)> {
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
async fn due(store: &Store, limit: u32) -> anyhow::Result<u32> {
    let view = store.view();
    let mut found = 0;
    for band in view.bands().await? {
        found += view.reach(reach(band, limit)).await?.len();
    }
    Ok(u32::try_from(found)?)
}

fn reach(band: Band, limit: u32) -> Reach {
    Reach { band, decided_by: Timestamp::from_micros(FAILED_AT - 1), created_after: Timestamp::MIN, after: None, limit }
}

/// How the database goes about it.
async fn plan(url: &StoreUrl) -> anyhow::Result<Vec<String>> {
    let long_ago = i64::MIN;
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || {
                let connection = plain::sqlite(&path)?;
                let sql = format!("EXPLAIN QUERY PLAN {}", statements::due(For::Sqlite));
                let mut statement = connection.prepare(&sql)?;
                let params = rusqlite::params![SOURCE, 1, FAILED_AT - 1, long_ago, long_ago, "", "", "", 1000];
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
            let (before, limit) = (FAILED_AT - 1, 1000i64);
            let rows =
                client.query(&sql, &[&SOURCE, &1i64, &before, &long_ago, &long_ago, &"", &"", &"", &limit]).await?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        }
    }
}

/// Whether a line of a plan reads all partitions.
fn scans_all(line: &str) -> bool {
    line.contains("Seq Scan on partitions ") || line.trim_start().starts_with("SCAN p")
}

fn show(figures: &Figures, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json | Format::Jsonl => return output::json(figures),
        Format::Table | Format::Csv => {}
    }
    let Figures { store, partitions, failed, rows, .. } = figures;
    output::line(&format!("{partitions} of {failed} failed partitions, {rows} in all, on {store}"));
    let plainly = figures.baseline_retry_per_s.map_or_else(String::new, |plainly| format!("{plainly:.0}/s"));
    let of_it = figures.retry_ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0));
    let only = |name: &str, value: String| vec![name.to_owned(), value, String::new(), String::new()];
    let table = vec![
        vec!["retry, audited".to_owned(), format!("{:.0}/s", figures.retry_per_s), plainly, of_it],
        only("inspect one key, p50", format!("{} ms", figures.inspect_key_p50_ms)),
        only("inspect a page of 50, p50", format!("{} ms", figures.inspect_page_p50_ms)),
        only(&format!("select {} due", figures.due_found), format!("{} ms", figures.due_ms)),
    ];
    output::line(&output::table(&["", "redrive", "plain SQL", "of it"], table));
    output::line("\nplan of the selection:");
    for line in &figures.due_plan {
        output::line(&format!("  {line}"));
    }
    Ok(())
}
