//! The schema's history. Migrations run under a lock, each database in its own way; a database from the future is refused.

use crate::error::{Error, Result};

pub(crate) struct Step {
    pub(crate) version: i64,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

macro_rules! step {
    ($version:literal, $file:literal) => {
        Step {
            version: $version,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../migrations/postgres/", $file)),
        }
    };
}

const STEPS: &[Step] = &[step!(1, "0001_foundation.sql")];

/// The newest schema this program knows.
pub const SUPPORTED: i64 = STEPS[STEPS.len() - 1].version;

/// "RDRV" in a SQLite file's header says whose it is.
pub(crate) const APPLICATION_ID: i64 = 0x5244_5256;

/// On PostgreSQL the migrator makes this one itself.
const VERSIONS: &str = "redrive_schema";

/// Every table that is ours, to tell them from another program's: those that the migrations make.
pub(crate) fn tables() -> impl Iterator<Item = &'static str> {
    let made = |step: &'static Step| step.sqlite.lines().filter_map(|line| line.strip_prefix("CREATE TABLE "));
    let names = STEPS.iter().flat_map(made).filter_map(|rest| rest.split([' ', '(']).next());
    names.chain([VERSIONS])
}

/// Whether a table is ours.
pub(crate) fn is_ours(table: &str) -> bool {
    tables().any(|name| name == table)
}

pub(crate) fn steps_after(version: i64) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(move |step| step.version > version)
}

pub(crate) fn check_known(place: &str, found: i64) -> Result<()> {
    if found > SUPPORTED {
        return Err(Error::NewerSchema { place: place.to_owned(), found, supported: SUPPORTED });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_migrations_are_ours() {
        let ours: Vec<_> = tables().collect();
        assert!(ours.len() > 30, "{ours:?}");
        let is_name = |name: &&str| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        assert!(ours.iter().all(is_name), "{ours:?}");
        assert!(is_ours("run_queue") && is_ours("redrive_schema") && !is_ours("users"));
    }
}
