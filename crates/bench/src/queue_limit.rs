//! The least that a queue in this database can cost, to see how far the store is from it: a narrow table with one partial index,
//! claimed and completed by updates in batches, nothing kept but a state; and single rows inserted by many callers.

use std::path::Path;
use std::time::Duration;

use redrive_store::StoreUrl;
use rusqlite::{TransactionBehavior, params};
use uuid::Uuid;

use crate::flags::BenchQueue;
use crate::measure::{OnPhase, phase};
use crate::queue::{CATEGORY, PAYLOAD};
use crate::{Error, Result, plain};

const NOW: i64 = 1_767_225_600_000_000;

/// Drains as many jobs as the store did; says how long it took.
pub async fn drain(url: &StoreUrl, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<Duration> {
    plain::execute(url, TABLE).await?;
    let (drained, took) = match url {
        StoreUrl::Sqlite(path) => {
            let (path, args) = (path.clone(), args.clone());
            fill_sqlite(&path, args.clone()).await?;
            phase(on_phase, "limit of drain", drain_sqlite(&path, args)).await?
        }
        StoreUrl::Postgres(url) => {
            fill_postgres(url, args).await?;
            phase(on_phase, "limit of drain", drain_postgres(url, args)).await?
        }
    };
    if drained != args.jobs {
        return Err(Error::Failed(format!("{drained} of {} jobs came out", args.jobs)));
    }
    Ok(took)
}

const TABLE: &str = "CREATE TABLE least (
         id BIGINT PRIMARY KEY,
         submitted_at BIGINT NOT NULL,
         lease_until BIGINT,
         state INTEGER NOT NULL,
         category TEXT NOT NULL,
         task TEXT,
         payload TEXT
     );
     CREATE INDEX least_queued ON least (category, submitted_at, id) WHERE state = 0";

async fn fill_sqlite(path: &Path, args: BenchQueue) -> Result<()> {
    let path = path.to_owned();
    let fill = move || {
        let mut connection = plain::sqlite(&path)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = tx.prepare("INSERT INTO least VALUES (?1, ?2, NULL, 0, ?3, NULL, ?4)")?;
            for id in 0..args.jobs {
                insert.execute(params![id, NOW, CATEGORY, PAYLOAD])?;
            }
        }
        Ok(tx.commit()?)
    };
    tokio::task::spawn_blocking(fill).await?
}

async fn drain_sqlite(path: &Path, args: BenchQueue) -> Result<u32> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..args.workers {
        let (path, batch) = (path.to_owned(), args.batch);
        tasks.spawn_blocking(move || drain_by_one(&path, batch));
    }
    tasks.join_all().await.into_iter().sum()
}

fn drain_by_one(path: &Path, batch: u32) -> Result<u32> {
    let mut connection = plain::sqlite(path)?;
    let mut done = 0;
    loop {
        let task = Uuid::now_v7().to_string();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let claimed: Vec<(i64, String)> = tx
            .prepare_cached(
                "UPDATE least SET state = 1, task = ?1, lease_until = ?2 WHERE id IN (SELECT id FROM least \
                 WHERE state = 0 AND category = ?3 ORDER BY submitted_at, id LIMIT ?4) RETURNING id, payload",
            )?
            .query_map(params![task, NOW, CATEGORY, batch], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        tx.commit()?;
        if claimed.is_empty() {
            return Ok(done);
        }
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut complete =
                tx.prepare_cached("UPDATE least SET state = 2 WHERE id = ?1 AND state = 1 AND task = ?2")?;
            for (id, _) in &claimed {
                done += u32::try_from(complete.execute(params![id, task])?)?;
            }
        }
        tx.commit()?;
    }
}

async fn fill_postgres(url: &str, args: &BenchQueue) -> Result<()> {
    let client = plain::postgres(url).await?;
    let fill = "INSERT INTO least SELECT n, $1, NULL, 0, $2, NULL, $3 FROM generate_series(1, $4::bigint) n";
    client.execute(fill, &[&NOW, &CATEGORY, &PAYLOAD, &i64::from(args.jobs)]).await?;
    client.batch_execute("ANALYZE least").await?;
    Ok(())
}

async fn drain_postgres(url: &str, args: &BenchQueue) -> Result<u32> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..args.workers {
        let (client, batch) = (plain::postgres(url).await?, i64::from(args.batch));
        tasks.spawn(async move {
            let claim = client
                .prepare(
                    "WITH picked AS MATERIALIZED (SELECT id FROM least WHERE state = 0 AND category = $3 \
                     ORDER BY submitted_at, id LIMIT $4 FOR UPDATE SKIP LOCKED) UPDATE least SET state = 1, task = $1, \
                     lease_until = $2 WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING id, payload",
                )
                .await?;
            let complete =
                client.prepare("UPDATE least SET state = 2 WHERE id = ANY ($1) AND state = 1 AND task = $2").await?;
            let mut done = 0;
            loop {
                let task = Uuid::now_v7().to_string();
                let rows = client.query(&claim, &[&task, &NOW, &CATEGORY, &batch]).await?;
                if rows.is_empty() {
                    return Ok::<u32, Error>(done);
                }
                let claimed: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
                let ids: Vec<i64> = claimed.iter().map(|(id, _)| *id).collect();
                done += u32::try_from(client.execute(&complete, &[&ids, &task]).await?)?;
            }
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Inserts single rows from many callers, each with its own connection and commit. SQLite has one writer, so one caller does it all.
pub async fn single_inserts(url: &StoreUrl, callers: u32, each: u32) -> Result<Duration> {
    plain::execute(url, "CREATE TABLE single (id BIGINT PRIMARY KEY, payload TEXT)").await?;
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            let insert = move || {
                let connection = plain::sqlite(&path)?;
                let start = std::time::Instant::now();
                let mut insert = connection.prepare("INSERT INTO single VALUES (?1, ?2)")?;
                for id in 0..callers * each {
                    insert.execute(params![id, PAYLOAD])?;
                }
                Ok(start.elapsed())
            };
            tokio::task::spawn_blocking(insert).await?
        }
        StoreUrl::Postgres(url) => {
            let mut clients = Vec::new();
            for _ in 0..callers {
                let client = plain::postgres(url).await?;
                let insert = client.prepare("INSERT INTO single VALUES ($1, $2)").await?;
                clients.push((client, insert));
            }
            let start = std::time::Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for (caller, (client, insert)) in (0i64..).zip(clients) {
                tasks.spawn(async move {
                    for nth in 0..i64::from(each) {
                        client.execute(&insert, &[&(caller * i64::from(each) + nth), &PAYLOAD]).await?;
                    }
                    Ok::<_, Error>(())
                });
            }
            tasks.join_all().await.into_iter().collect::<Result<()>>()?;
            Ok(start.elapsed())
        }
    }
}
