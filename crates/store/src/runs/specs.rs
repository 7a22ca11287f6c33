//! What a claim reads of the runs that it takes: when they were submitted, and what their handlers are given.
//!
//! Jobs that are claimed together for the first time were mostly submitted together. PostgreSQL reads them by one walk along the index
//! then, and asks by their ids only for those that lie elsewhere.

use redrive_core::id::RunId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use super::row::opt_count;
use crate::db::{Column, Cursor, Kind, Lookup, Row, Sql, Tx};
use crate::error::{Error, Result};

/// What never changes of a run.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub submitted_at: Timestamp,
    pub not_before: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub subject: Option<String>,
    pub external_id: Option<String>,
    pub payload: Option<String>,
}

/// What [`Spec::read`] expects, of this table.
macro_rules! spec_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".submitted_at, ",
            $table,
            ".not_before, ",
            $table,
            ".max_attempts, ",
            $table,
            ".subject, ",
            $table,
            ".external_id, ",
            $table,
            ".payload"
        )
    };
}
pub(super) use spec_columns;

impl Spec {
    pub(super) fn read(row: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            submitted_at: row.time()?,
            not_before: row.opt_time()?,
            max_attempts: opt_count(row)?,
            subject: row.opt_text()?,
            external_id: row.opt_text()?,
            payload: row.opt_text()?,
        })
    }
}

/// So many runs at least are looked for side by side.
const FEWEST: usize = 16;

/// Of so many rows that follow one another, those of a category. What is found for nothing, because it was not taken, must not be
/// large: long payloads are asked for by the ids of their runs.
pub(crate) const SIDE_BY_SIDE_ON_POSTGRES: &str = concat!(
    "/* runs::side_by_side */
     SELECT near.run_id, ",
    spec_columns!("near"),
    "
     FROM (
         SELECT *
         FROM run_specs
         WHERE run_id >= ?1
           AND run_id <= ?2
         ORDER BY run_id
         LIMIT CAST(?3 AS BIGINT)
     ) near
     WHERE near.workload = ?4
       AND near.category = ?5
       AND (near.payload IS NULL OR pg_column_size(near.payload) <= 2048)"
);
static SIDE_BY_SIDE: Sql = Sql::new(SIDE_BY_SIDE_ON_POSTGRES);

static BY_ID: Lookup = Lookup::new(
    concat!(
        "/* runs::specs */
     SELECT ",
        spec_columns!("run_specs"),
        "
     FROM run_specs
     WHERE run_id = @run_id"
    ),
    &[("run_id", Kind::Id)],
);

/// A run that was taken, and whether it was never claimed before.
pub(super) struct Wanted {
    pub run_id: RunId,
    pub is_new: bool,
}

/// The specs of runs of one category, in the order of the runs, which is that of their ids.
pub(super) async fn of(tx: &mut Tx<'_>, queue: (Workload, &str), wanted: &[Wanted]) -> Result<Vec<Spec>> {
    let mut found = side_by_side(tx, queue, wanted).await?;
    let missing: Vec<usize> = (0..wanted.len()).filter(|&nth| found[nth].is_none()).collect();
    let ids = [Column::ids(&missing, |&nth| Some(wanted[nth].run_id.uuid()))];
    for (nth, spec) in tx.lookup(&BY_ID, &ids, |mut row| Spec::read(&mut row)).await? {
        found[missing[nth]] = Some(spec);
    }
    let absent = |run_id: RunId| Error::Absent { what: "spec of run", id: run_id.to_string() };
    wanted.iter().zip(found).map(|(wanted, spec)| spec.ok_or_else(|| absent(wanted.run_id))).collect()
}

/// Those that lie side by side, each in its place.
async fn side_by_side(tx: &mut Tx<'_>, queue: (Workload, &str), wanted: &[Wanted]) -> Result<Vec<Option<Spec>>> {
    let mut found = vec![None; wanted.len()];
    let new: Vec<usize> = (0..wanted.len()).filter(|&nth| wanted[nth].is_new).collect();
    let (Some(&first), Some(&last)) = (new.first(), new.last()) else { return Ok(found) };
    if new.len() < FEWEST {
        return Ok(found);
    }
    let params = [
        wanted[first].run_id.uuid().into(),
        wanted[last].run_id.uuid().into(),
        i64::try_from(new.len()).unwrap_or(i64::MAX).into(),
        queue.0.as_str().into(),
        queue.1.into(),
    ];
    let put_in_place = |row: &Row<'_>| {
        let mut row = row.cursor();
        let run_id = RunId::from_uuid(row.id()?);
        if let Ok(nth) = wanted.binary_search_by_key(&run_id, |wanted| wanted.run_id) {
            found[nth] = Some(Spec::read(&mut row)?);
        }
        Ok(())
    };
    tx.rows(&SIDE_BY_SIDE, &params, put_in_place).await?;
    Ok(found)
}
