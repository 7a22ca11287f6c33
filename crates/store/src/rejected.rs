//! Successes that were to be reprocessed and whose last attempt at it was rejected: what automation may ask for again.

use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::partition_row::{self, partition_columns};
use crate::partitions::Band;

static BANDS: Sql = Sql::new(
    "/* rejected::bands */ SELECT DISTINCT source, reprocess - 1 FROM partition_control \
     WHERE reprocess > 1 AND lane IS NULL AND paused_at IS NULL",
);

/// Which sources have such requests, with how many rejections.
pub(crate) async fn bands(tx: &mut Tx<'_>) -> Result<Vec<Band>> {
    tx.rows(&BANDS, &[], |row| Band::new(row.text(0)?, row.int(1)?)).await
}

static PAGE: Sql = Sql::new(concat!(
    "/* rejected::page */ SELECT ",
    partition_columns!(),
    " FROM partition_control c JOIN partitions p ON p.source = c.source AND p.customer_id = c.customer_id \
      AND p.query_name = c.query_name AND p.logical_date = c.logical_date \
      WHERE c.reprocess > 1 AND c.lane IS NULL AND c.paused_at IS NULL AND c.source = ?1 \
      AND c.reprocess = CAST(?2 AS BIGINT) AND (c.customer_id, c.query_name, c.logical_date) > (?3, ?4, ?5) \
      ORDER BY c.customer_id, c.query_name, c.logical_date LIMIT CAST(?6 AS BIGINT)"
));

/// Up to `limit` partitions of a band, in key order, after one of its keys.
pub(crate) async fn page(
    tx: &mut Tx<'_>,
    band: &Band,
    after: Option<&PartitionKey>,
    limit: u32,
) -> Result<Vec<Partition>> {
    let (customer, query, date) = match after {
        Some(key) => (key.customer_id.as_str(), key.query_name.as_str(), key.logical_date.to_string()),
        None => ("", "", String::new()),
    };
    let params = [
        band.source.as_str().into(),
        (i64::from(band.attempt_count) + 1).into(),
        customer.into(),
        query.into(),
        date.as_str().into(),
        i64::from(limit).into(),
    ];
    tx.rows(&PAGE, &params, partition_row::read).await
}
