//! The hand-written loop that the queue is measured against: the store's own statements, prepared once, nothing else.

use std::path::Path;
use std::time::Duration;

use redrive_store::statements::{self, For};
use redrive_store::{Open, Options, Store, StoreUrl};
use rusqlite::{TransactionBehavior, params};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::flags::BenchQueue;
use crate::measure::{OnPhase, phase};
use crate::queue::{CATEGORY, PAYLOAD, share};
use crate::{Error, Result, plain};

/// Any moment will do, as long as the lease lies ahead of it.
const NOW: i64 = 1_767_225_600_000_000;
const LEASE_END: i64 = NOW + 120_000_000;

pub async fn run(url: &StoreUrl, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<(Duration, Duration)> {
    drop(Store::open(url, Open::Migrate, Options::default()).await?);
    let ((), enqueue) = match url {
        StoreUrl::Sqlite(path) => phase(on_phase, "bare enqueue", on_sqlite(path, args, enqueue_sqlite)).await?,
        StoreUrl::Postgres(url) => phase(on_phase, "bare enqueue", enqueue_postgres(url, args)).await?,
    };
    let (drained, drain) = match url {
        StoreUrl::Sqlite(path) => phase(on_phase, "bare drain", on_sqlite(path, args, drain_sqlite)).await?,
        StoreUrl::Postgres(url) => phase(on_phase, "bare drain", drain_postgres(url, args)).await?,
    };
    if drained != args.jobs {
        return Err(Error::Failed(format!("{drained} of {} runs came out", args.jobs)));
    }
    Ok((enqueue, drain))
}

async fn on_sqlite<T: Send + 'static>(
    path: &Path,
    args: &BenchQueue,
    work: fn(&mut rusqlite::Connection, &BenchQueue) -> Result<T>,
) -> Result<T> {
    let (path, args) = (path.to_owned(), args.clone());
    tokio::task::spawn_blocking(move || work(&mut plain::sqlite(&path)?, &args)).await?
}

fn enqueue_sqlite(connection: &mut rusqlite::Connection, args: &BenchQueue) -> Result<()> {
    let mut left = args.jobs;
    while left > 0 {
        let size = left.min(args.batch);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = tx.prepare_cached(&statements::submit_runs(For::Sqlite))?;
            let mut queue = tx.prepare_cached(&statements::queue_runs(For::Sqlite))?;
            let (no_text, no_time) = (None::<&str>, None::<i64>);
            for _ in 0..size {
                let id = Uuid::now_v7();
                let id = id.as_bytes();
                insert.execute(params![id, NOW, no_time, no_time, "process", CATEGORY, no_text, no_text, PAYLOAD])?;
                queue.execute(params![
                    "process", CATEGORY, id, 1, 0, 0, 0, no_time, no_time, no_time, no_text, no_text, no_text, no_text,
                    no_text, no_text
                ])?;
            }
        }
        tx.commit()?;
        left -= size;
    }
    Ok(())
}

fn drain_sqlite(connection: &mut rusqlite::Connection, args: &BenchQueue) -> Result<u32> {
    let mut done = 0;
    loop {
        let task = Uuid::now_v7();
        let claimed = claim_sqlite(connection, args, task)?;
        if claimed.is_empty() {
            return Ok(done);
        }
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut remove = tx.prepare_cached(&statements::remove_bundles(For::Sqlite))?;
            for bundle in claimed.chunks(statements::BUNDLED) {
                if remove.execute(params![task.as_bytes(), bundle[0].0])? > 0 {
                    done += u32::try_from(bundle.len())?;
                }
            }
            let mut finish = tx.prepare_cached(&statements::finish_runs(For::Sqlite))?;
            let nothing = None::<&str>;
            for (id, _) in &claimed {
                finish.execute(params![
                    "process",
                    CATEGORY,
                    id,
                    3,
                    1,
                    0,
                    0,
                    nothing,
                    NOW,
                    NOW,
                    task.as_bytes(),
                    nothing,
                    nothing,
                    nothing,
                    "bench",
                    nothing,
                    nothing,
                    "done",
                    NOW,
                    "completed",
                    "passed",
                    nothing
                ])?;
            }
        }
        tx.commit()?;
    }
}

/// A claimed run's id and payload.
type Claimed = ([u8; 16], Option<String>);

fn claim_sqlite(connection: &mut rusqlite::Connection, args: &BenchQueue, task: Uuid) -> Result<Vec<Claimed>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.prepare_cached(&statements::promote_runs(For::Sqlite))?.execute(params!["process", NOW, 1000])?;
    let claimed: Vec<Claimed> = tx
        .prepare_cached(&statements::claim_runs(For::Sqlite))?
        .query_map(params!["process", CATEGORY, args.batch], |row| {
            Ok((row.get(0)?, row.get(statements::PAYLOAD_COLUMN)?))
        })?
        .collect::<Result<_, _>>()?;
    if let Some((last, _)) = claimed.last() {
        tx.prepare_cached(statements::LEAVE_ON_SQLITE)?.execute(params!["process", CATEGORY, last])?;
        let mut put = tx.prepare_cached(&statements::put_bundles(For::Sqlite))?;
        for bundle in claimed.chunks(statements::BUNDLED) {
            let (first, last) = (bundle[0].0, bundle[bundle.len() - 1].0);
            let ids: Vec<u8> = bundle.iter().flat_map(|(id, _)| *id).collect();
            put.execute(params![task.as_bytes(), first, last, CATEGORY, "bench", NOW, NOW, LEASE_END, ids])?;
        }
    }
    tx.commit()?;
    Ok(claimed)
}

async fn each_worker<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    url: &str,
    args: &BenchQueue,
    work: impl Fn(Client, BenchQueue, u32) -> F,
) -> Result<Vec<T>> {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..args.workers {
        let client = plain::postgres(url).await?;
        client.batch_execute(statements::POSTGRES_SESSION).await?;
        tasks.spawn(work(client, args.clone(), nth));
    }
    tasks.join_all().await.into_iter().collect()
}

async fn enqueue_postgres(url: &str, args: &BenchQueue) -> Result<()> {
    let work = |mut client: Client, args: BenchQueue, nth| async move {
        let insert = client.prepare(&statements::submit_runs(For::Postgres)).await?;
        let queue = client.prepare(&statements::queue_runs(For::Postgres)).await?;
        let mut left = share(args.jobs, args.workers, nth);
        while left > 0 {
            let size = usize::try_from(left.min(args.batch))?;
            let ids: Vec<Uuid> = (0..size).map(|_| Uuid::now_v7()).collect();
            let (no_text, no_int, no_id) =
                (vec![None::<&str>; size], vec![None::<i64>; size], vec![None::<Uuid>; size]);
            let (workload, category) = (vec!["process"; size], vec![CATEGORY; size]);
            let (payload, at) = (vec![PAYLOAD; size], vec![NOW; size]);
            let (one, zero) = (vec![1i64; size], vec![0i64; size]);
            let tx = client.transaction().await?;
            let spec: [&(dyn ToSql + Sync); 9] =
                [&ids, &at, &no_int, &no_int, &workload, &category, &no_text, &no_text, &payload];
            tx.execute(&insert, &spec).await?;
            let standing: [&(dyn ToSql + Sync); 3 + statements::PROGRESS_COLUMNS] = [
                &workload, &category, &ids, &one, &zero, &zero, &zero, &no_int, &no_int, &no_int, &no_id, &no_text,
                &no_text, &no_text, &no_text, &no_text,
            ];
            tx.execute(&queue, &standing).await?;
            tx.commit().await?;
            left -= left.min(args.batch);
        }
        Ok(())
    };
    each_worker(url, args, work).await.map(drop)
}

async fn drain_postgres(url: &str, args: &BenchQueue) -> Result<u32> {
    let work = |mut client: Client, args: BenchQueue, _| async move {
        let promote = client.prepare(&statements::promote_runs(For::Postgres)).await?;
        let claim = client.prepare(&statements::claim_runs(For::Postgres)).await?;
        let specs = client.prepare(&statements::specs_on_postgres()).await?;
        let put = client.prepare(&statements::put_bundles(For::Postgres)).await?;
        let remove = client.prepare(&statements::remove_bundles(For::Postgres)).await?;
        let finish = client.prepare(&statements::finish_runs(For::Postgres)).await?;
        let mut done = 0;
        loop {
            let task = Uuid::now_v7();
            let tx = client.transaction().await?;
            tx.execute(&promote, &[&"process", &NOW, &1000i64]).await?;
            let batch = i64::from(args.batch);
            let rows = tx.query(&claim, &[&"process", &CATEGORY, &batch]).await?;
            let mut ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
            ids.sort_unstable();
            let size = ids.len();
            if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
                let among: [&(dyn ToSql + Sync); 5] = [first, last, &i64::try_from(size)?, &"process", &CATEGORY];
                let found = tx.query(&specs, &among).await?;
                let payloads: Vec<Option<&str>> = found.iter().map(|row| row.get(statements::PAYLOAD_COLUMN)).collect();
                std::hint::black_box(payloads);
            }
            let bundles = || ids.chunks(statements::BUNDLED);
            let firsts: Vec<Uuid> = bundles().map(|ids| ids[0]).collect();
            let lasts: Vec<Uuid> = bundles().map(|ids| ids[ids.len() - 1]).collect();
            let runs: Vec<Vec<u8>> = bundles().map(|ids| ids.iter().flat_map(|id| *id.as_bytes()).collect()).collect();
            let (of_task, of_category) = (vec![task; firsts.len()], vec![CATEGORY; firsts.len()]);
            let (by_worker, at) = (vec!["bench"; firsts.len()], vec![NOW; firsts.len()]);
            let until = vec![LEASE_END; firsts.len()];
            let values: [&(dyn ToSql + Sync); 9] =
                [&of_task, &firsts, &lasts, &of_category, &by_worker, &at, &at, &until, &runs];
            tx.execute(&put, &values).await?;
            tx.commit().await?;
            if rows.is_empty() {
                return Ok(done);
            }
            let (tasks, now, no_text) = (vec![task; size], vec![NOW; size], vec![None::<&str>; size]);
            let (workload, category) = (vec!["process"; size], vec![CATEGORY; size]);
            let (no_int, state) = (vec![None::<i64>; size], vec!["done"; size]);
            let (three, one, zero) = (vec![3i64; size], vec![1i64; size], vec![0i64; size]);
            let (worker, passed, ended) = (vec!["bench"; size], vec!["passed"; size], vec!["completed"; size]);
            let values: [&(dyn ToSql + Sync); 9 + statements::PROGRESS_COLUMNS] = [
                &workload, &category, &ids, &three, &one, &zero, &zero, &no_int, &now, &now, &tasks, &no_text,
                &no_text, &no_text, &worker, &no_text, &no_int, &state, &now, &ended, &passed, &no_int,
            ];
            let tx = client.transaction().await?;
            let is_whole = tx.execute(&remove, &[&of_task, &firsts]).await? == u64::try_from(firsts.len())?;
            done += if is_whole { u32::try_from(size)? } else { 0 };
            tx.execute(&finish, &values).await?;
            tx.commit().await?;
        }
    };
    Ok(each_worker(url, args, work).await?.into_iter().sum())
}
