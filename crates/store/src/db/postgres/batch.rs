//! A statement over many rows on PostgreSQL: each column goes as an array, and which rows took effect is told by the answer.

use std::collections::HashSet;

use super::PgTx;
use crate::db::batch::{Batch, Effect};
use crate::db::row::Row;
use crate::db::shared::Shared;
use crate::db::sql::Kind;
use crate::db::value::{Column, Param};
use crate::error::Result;

pub(in crate::db) async fn batch(
    tx: &mut PgTx<'_>,
    sql: &Batch,
    columns: &[Column<'_>],
    shared: Shared,
) -> Result<Vec<bool>> {
    let rows = columns.first().map_or(0, Column::len);
    let (text, shared) = sql.for_postgres(shared);
    match sql.effect() {
        Effect::All => {
            tx.defer_batch(&text, columns, shared).await?;
            Ok(vec![true; rows])
        }
        Effect::Inserted(_) => {
            let inserted = tx.query_batch(&text, columns, shared).await?;
            if inserted.len() == rows {
                return Ok(vec![true; rows]);
            }
            let unique = sql.unique_columns();
            let found = inserted.iter().map(|row| key_of_row(row, &unique)).collect::<Result<HashSet<_>>>()?;
            Ok((0..rows).map(|nth| found.contains(&key_of_values(columns, &unique, nth))).collect())
        }
        Effect::Row => {
            let mut took = vec![false; rows];
            for row in tx.query_batch(&text, columns, shared).await? {
                let nth = usize::try_from(Row::Postgres(&row).int(0)?).unwrap_or(0);
                if let Some(slot) = took.get_mut(nth.wrapping_sub(1)) {
                    *slot = true;
                }
            }
            Ok(took)
        }
    }
}

/// The unique values of an inserted row, to be found again among the values it was made from.
fn key_of_row(row: &tokio_postgres::Row, unique: &[(usize, Kind)]) -> Result<Vec<Vec<u8>>> {
    let row = Row::Postgres(row);
    let values = unique.iter().enumerate().map(|(nth, (_, kind))| {
        Ok(match kind {
            Kind::Int => row.int(nth)?.to_le_bytes().to_vec(),
            Kind::Text => row.text(nth)?.into_bytes(),
            Kind::Id => row.id(nth)?.as_bytes().to_vec(),
            Kind::Bytes => row.bytes(nth)?,
        })
    });
    values.collect()
}

fn key_of_values(columns: &[Column<'_>], unique: &[(usize, Kind)], nth: usize) -> Vec<Vec<u8>> {
    let bytes = |param: Param<'_>| match param {
        Param::Null => vec![],
        Param::Int(value) => value.to_le_bytes().to_vec(),
        Param::Text(value) => value.as_bytes().to_vec(),
        Param::Id(value) => value.as_bytes().to_vec(),
        Param::Bytes(value) => value.to_vec(),
    };
    unique.iter().map(|(column, _)| bytes(columns[*column].row(nth))).collect()
}
