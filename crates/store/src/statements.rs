//! The texts of the statements that decide the store's speed, so that `redrive bench` can run the same ones in a bare
//! loop and compare. Nothing else should need them.

use crate::db::{Dialect, render};
use crate::{gauges, partitions, runs, stanzas};

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

/// Submits runs, first statement: id, times of submission and not-before, attempts, workload, category, subject, external id,
/// payload; arrays of them on PostgreSQL.
pub fn submit_runs(database: For) -> String {
    runs::INSERT.render(database.dialect())
}

/// Submits runs, second statement, or gives one back: workload, category, id, and how far it has come ([`PROGRESS_COLUMNS`]).
pub fn queue_runs(database: For) -> String {
    runs::QUEUE.render(database.dialect())
}

/// Queues what has come due: workload, now, limit.
pub fn promote_runs(database: For) -> String {
    match database {
        For::Sqlite => render(runs::COME_DUE, Dialect::Sqlite),
        For::Postgres => render(runs::PROMOTE_ON_POSTGRES, Dialect::Postgres),
    }
}

/// Claims runs: workload, category, limit. The claim goes on with [`LEAVE_ON_SQLITE`], or with [`specs_on_postgres`].
pub fn claim_runs(database: For) -> String {
    match database {
        For::Sqlite => render(runs::NEXT_ON_SQLITE, Dialect::Sqlite),
        For::Postgres => render(runs::TAKE_ON_POSTGRES, Dialect::Postgres),
    }
}

/// Goes on with a claim of runs that were submitted one after the other: first and last id, how many, workload, category.
pub fn specs_on_postgres() -> String {
    render(runs::SIDE_BY_SIDE_ON_POSTGRES, Dialect::Postgres)
}

/// Goes on with a claim: workload, category, the last run's id.
pub const LEAVE_ON_SQLITE: &str = runs::LEAVE_ON_SQLITE;

/// Ends a claim: task, first and last id, category, worker, start, heartbeat, lease end and all ids of up to [`BUNDLED`] runs; arrays of
/// them on PostgreSQL.
pub fn put_bundles(database: For) -> String {
    runs::PUT_BUNDLES.render(database.dialect())
}

/// How many runs a bundle holds.
pub const BUNDLED: usize = runs::BUNDLED;

/// Records runs, first statement: task and first id of a bundle whose runs have all ended; arrays of them on PostgreSQL.
pub fn remove_bundles(database: For) -> String {
    runs::REMOVE_BUNDLES.render(database.dialect())
}

/// Records runs, second statement: workload, category, id, how far it has come, failure group, state, end, ended by,
/// verdict, and the lease of a cancelled claim.
pub fn finish_runs(database: For) -> String {
    runs::FINISH.render(database.dialect())
}

/// How many values say how far a run has come: version, attempt, retry count, waited, next retry, start, heartbeat, task, class,
/// message and trace of its error, worker, metrics.
pub const PROGRESS_COLUMNS: usize = 13;

/// Where [`claim_runs`] answers the payload on SQLite, and [`specs_on_postgres`] does.
pub const PAYLOAD_COLUMN: usize = runs::PAYLOAD_COLUMN;

/// Gives a session on PostgreSQL the plans of the store's claims and of its search for what is due.
pub const POSTGRES_SESSION: &str = crate::db::INDEX_PLANS_OF_SESSION;

/// Selects what may be due in one band.
pub fn due(database: For) -> &'static str {
    partitions::DUE.render(database.dialect())
}

/// What gauges are read by, to look at the plans.
pub fn gauges(database: For) -> Vec<String> {
    gauges::statements(database.dialect())
}

/// Adds stanzas; arrays of them on PostgreSQL.
pub fn insert_stanzas(database: For) -> String {
    stanzas::INSERT_STANZAS.render(database.dialect())
}

/// Adds settings; arrays of them on PostgreSQL.
pub fn insert_settings(database: For) -> String {
    stanzas::INSERT_SETTINGS.render(database.dialect())
}

/// Adds the words of blocks of settings; arrays of them on PostgreSQL.
pub fn insert_words(database: For) -> String {
    stanzas::INSERT_WORDS.render(database.dialect())
}

/// The statements of a search, each with what goes into it as literals of PostgreSQL, to look at their plans.
pub fn search(database: For, search: &crate::Search) -> Vec<(String, Vec<String>)> {
    stanzas::search_statements(database.dialect(), search)
}
