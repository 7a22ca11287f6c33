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

/// Every table that is ours, to tell them from another program's.
pub(crate) const TABLES: &[&str] = &[
    "series",
    "partitions",
    "partition_control",
    "run_specs",
    "run_waiting",
    "run_queue",
    "run_claims",
    "run_ends",
    "run_failures",
    "run_incidents",
    "task_answers",
    "failure_groups",
    "uploads",
    "confs",
    "files",
    "stanzas",
    "settings",
    "words",
    "holds",
    "processes",
    "streaks",
    "operations",
    "operation_changes",
    "plans",
    "bulk_items",
    "bulk_operations",
    "idempotency_keys",
    "audit_head",
    "clock",
    "raw_sink",
    "redrive_schema",
];

pub(crate) fn steps_after(version: i64) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(move |step| step.version > version)
}

pub(crate) fn check_known(place: &str, found: i64) -> Result<()> {
    if found > SUPPORTED {
        return Err(Error::NewerSchema { place: place.to_owned(), found, supported: SUPPORTED });
    }
    Ok(())
}
