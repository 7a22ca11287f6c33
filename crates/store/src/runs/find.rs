//! Finding runs by the beginning of their ids.

use std::sync::Arc;

use redrive_core::id::RunId;

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

impl View {
    /// The ids from `first` to `last`, the lowest first, and no more than `most` of them.
    pub async fn run_ids_between(&self, first: RunId, last: RunId, most: u32) -> Result<Vec<RunId>> {
        read!(self.read_by_index, "run ids", |tx, first, last, most| between(tx, *first, *last, *most))
    }
}

static BETWEEN: Sql = Sql::new(
    "/* runs::between */
     SELECT run_id
     FROM run_specs
     WHERE run_id >= ?1
       AND run_id <= ?2
     ORDER BY run_id
     LIMIT CAST(?3 AS BIGINT)",
);

async fn between(tx: &mut Tx<'_>, first: RunId, last: RunId, most: u32) -> Result<Vec<RunId>> {
    let params = [first.uuid().into(), last.uuid().into(), i64::from(most).into()];
    tx.rows(&BETWEEN, &params, |row| row.id(0).map(RunId::from_uuid)).await
}
