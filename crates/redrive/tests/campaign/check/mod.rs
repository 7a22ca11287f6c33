//! The checker: reads the database by its own SQL and the sink by its bytes, and says what is not as it must be.

mod audit;
mod database;
mod jobs;
mod partitions;
mod sink;
mod uploads;

use std::path::Path;

pub use database::{Reader, Row};

use crate::table::Finding;
use crate::workloads::{Expected, Workload};

/// What is checked, once nothing more will happen by itself.
pub struct Subject<'a> {
    pub reader: &'a mut Reader,
    pub folder: &'a Path,
    pub expected: &'a Expected,
    /// Whether times of one partition can be compared: not where the clock that counts was set.
    pub is_time_steady: bool,
    /// How far the clocks of two processes may be apart, in microseconds.
    pub clock_error: i64,
}

pub fn all(subject: &mut Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(partitions::check(subject));
    findings.extend(jobs::check(subject));
    findings.extend(uploads::check(subject));
    findings.extend(audit::check(subject));
    for (file, workload) in [("twice-extract", Workload::Extract), ("twice-process", Workload::Process)] {
        if let Ok(runs) = std::fs::read_to_string(subject.folder.join(file)) {
            findings.push(Finding::of(workload, format!("two programs of one piece of work at once: {runs}")));
        }
    }
    findings
}

/// A column that is never null.
fn text(row: &Row, column: usize) -> &str {
    row[column].as_deref().unwrap_or("(null)")
}

fn number(row: &Row, column: usize) -> i64 {
    text(row, column).parse().unwrap_or(i64::MIN)
}
