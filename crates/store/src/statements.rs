//! The texts of the statements that decide the store's speed, so that `redrive bench` can run the same ones in a bare
//! loop and compare. Nothing else should need them.

use crate::db::{Dialect, render};
use crate::{partitions, runs};

/// Which database a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    Sqlite,
    Postgres,
}

impl For {
    fn dialect(self) -> Dialect {
        match self {
            Self::Sqlite => Dialect::Sqlite,
            Self::Postgres => Dialect::Postgres,
        }
    }
}

/// Submits runs: id, workload, category, subject, external id, payload, state, time; arrays of them on PostgreSQL.
pub fn submit_runs(database: For) -> &'static str {
    runs::INSERT.render(database.dialect())
}

/// Moves due retries back to the queue: workload, now, limit.
pub fn promote_runs(database: For) -> String {
    render(runs::PROMOTE, database.dialect())
}

/// Claims runs: workload, category, limit, task, worker, now, lease end. Answers the runs; [`PAYLOAD_COLUMN`] is the payload.
pub fn claim_runs(database: For) -> String {
    render(runs::START, database.dialect())
}

/// Records runs, in the order of [`RECORD_COLUMNS`]; arrays of them on PostgreSQL.
pub fn record_runs(database: For) -> &'static str {
    runs::UPDATE.render(database.dialect())
}

/// How many values [`record_runs`] takes for each run.
pub const RECORD_COLUMNS: usize = runs::UPDATE_COLUMNS;

/// Where [`claim_runs`] answers the payload.
pub const PAYLOAD_COLUMN: usize = runs::READ_COLUMNS;

/// Gives a session on PostgreSQL the plans of the store's claims and of its search for what is due.
pub const POSTGRES_SESSION: &str = crate::db::INDEX_PLANS_OF_SESSION;

/// Selects what may be due in one band.
pub fn due(database: For) -> &'static str {
    partitions::DUE.render(database.dialect())
}
