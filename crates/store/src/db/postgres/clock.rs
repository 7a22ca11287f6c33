//! The server's clock, which the store follows.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use redrive_core::time::Timestamp;

use crate::clock::FollowingClock;

use super::fault::within;
use super::kind::PROMPT;
use super::lent::Lent;

const SAMPLE_EVERY: Duration = Duration::from_secs(60);

pub(super) async fn sample(client: &Object, clock: &FollowingClock) -> Result<(), tokio_postgres::Error> {
    let before = clock.local();
    // Typed, so that it is one message: a pooler may give two to different connections.
    let sql = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS BIGINT)";
    let row = client.query_typed_one(sql, &[]).await?;
    clock.sample(before, Timestamp::from_micros(row.get(0)), clock.local());
    Ok(())
}

pub(super) async fn keep(pool: Pool, clock: Arc<FollowingClock>) {
    loop {
        tokio::time::sleep(SAMPLE_EVERY).await;
        let Ok(client) = Lent::from(&pool).await else { continue };
        match within(PROMPT, sample(&client, &clock)).await {
            Ok(()) => client.give_back(),
            Err(fault) => tracing::warn!(error = fault.why(), "the server's clock could not be read"),
        }
    }
}
