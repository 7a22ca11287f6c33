//! The server's clock, which the store follows.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use redrive_core::clock::{Followed, Sample};
use redrive_core::time::Timestamp;

use crate::clock::{Clock as _, STEP, ServerClock};

use super::fault::within;
use super::kind::PROMPT;
use super::lent::Lent;

const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// The first sample is taken anew a few times where its answer was slow.
const EXACT: Duration = Duration::from_millis(20);
const TRIES: usize = 3;
/// A step that is longer ago concerns no lease.
const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);

/// Learns the server's clock.
pub(super) async fn learn(client: &Object, clock: &ServerClock) -> Result<(), tokio_postgres::Error> {
    for _ in 0..TRIES {
        let (offset, _) = clock.take(ask(client, clock).await?);
        if offset.error() <= EXACT {
            break;
        }
    }
    Ok(())
}

async fn ask(client: &Object, clock: &ServerClock) -> Result<Sample, tokio_postgres::Error> {
    let asked = clock.steady_now();
    // Typed, so that it is one message: a pooler may give two to different connections.
    let sql = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS BIGINT)";
    let row = client.query_typed_one(sql, &[]).await?;
    Ok(Sample { asked, server: Timestamp::from_micros(row.get(0)), answered: clock.steady_now() })
}

/// Samples the server's clock for as long as the store is open.
pub(super) async fn keep(pool: Pool, clock: Arc<ServerClock>) {
    recall(&pool, &clock).await;
    loop {
        tokio::time::sleep(SAMPLE_EVERY).await;
        let Ok(client) = Lent::from(&pool).await else { continue };
        match within(PROMPT, ask(&client, &clock)).await {
            Ok(sample) => {
                if let Followed::Jumped { by } = clock.take(sample).1 {
                    jumped(client, &clock, by).await;
                } else {
                    client.give_back();
                }
            }
            Err(fault) => tracing::warn!(error = fault.why(), "the server's clock could not be read"),
        }
    }
}

/// What other processes have seen before this one began to look. A database without a schema has nothing to tell.
async fn recall(pool: &Pool, clock: &ServerClock) {
    let Ok(client) = Lent::from(pool).await else { return };
    let sql = "/* clock::recall */ SELECT jumped_at, jumped_by FROM clock WHERE jumped_at IS NOT NULL";
    let Ok(rows) = within(PROMPT, client.query_typed(sql, &[])).await else { return };
    client.give_back();
    if let Some(row) = rows.first() {
        let ago = clock.now().since(Timestamp::from_micros(row.get(0)));
        if ago < LONG_AGO {
            clock.was_set(ago, row.get(1));
        }
    }
}

/// Tells of a server whose clock was set. Every process sees it; the row keeps the last word.
async fn jumped(client: Lent, clock: &ServerClock, by: i64) {
    if by.saturating_abs() < STEP {
        return client.give_back();
    }
    let by_s = by / 1_000_000;
    tracing::warn!(by_s, "the database server's clock was set; times follow it");
    let sql = "/* clock::jumped */ UPDATE clock SET jumped_at = $1, jumped_by = $2";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), _); 2] =
        [(&clock.now().micros(), tokio_postgres::types::Type::INT8), (&by, tokio_postgres::types::Type::INT8)];
    match within(PROMPT, client.query_typed(sql, &params)).await {
        Ok(_) => client.give_back(),
        Err(fault) => {
            tracing::warn!(error = fault.why(), "that the server's clock was set could not be written down");
        }
    }
}
