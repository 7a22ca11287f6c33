//! What a campaign found: fault, workload, database, tries, failures.

use std::collections::BTreeMap;
use std::fmt;

use crate::workloads::Workload;

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// None where it concerns all of them.
    pub workload: Option<Workload>,
    pub what: String,
}

impl Finding {
    pub fn of(workload: Workload, what: impl Into<String>) -> Self {
        Self { workload: Some(workload), what: what.into() }
    }

    pub fn general(what: impl Into<String>) -> Self {
        Self { workload: None, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workload {
            Some(workload) => write!(f, "{}: {}", workload.word(), self.what),
            None => f.write_str(&self.what),
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    tries: u64,
    failures: u64,
}

/// Rows by the order of the faults, then by workload and database.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<(usize, &'static str, Workload, &'static str), Count>,
    /// Processes that were killed, by database.
    kills: BTreeMap<&'static str, u64>,
    pub findings: Vec<String>,
}

/// Which rows are meant: a fault by its place and name, on a database.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub order: usize,
    pub fault: &'static str,
    pub database: &'static str,
}

impl Table {
    pub fn tried(&mut self, cell: Cell, workloads: &[Workload], kills: u64) {
        *self.kills.entry(cell.database).or_default() += kills;
        for workload in workloads {
            self.count(cell, *workload).tries += 1;
        }
    }

    pub fn failed(&mut self, cell: Cell, findings: &[Finding]) {
        for finding in findings {
            let text = format!("{} on {}: {finding}", cell.fault, cell.database);
            println!("FAILURE {text}");
            self.findings.push(text);
            let concerned = finding.workload.map_or(Workload::ALL.to_vec(), |workload| vec![workload]);
            for workload in concerned {
                self.count(cell, workload).failures += 1;
            }
        }
    }

    pub fn join(&mut self, other: Self) {
        self.rows.extend(other.rows);
        for (database, kills) in other.kills {
            *self.kills.entry(database).or_default() += kills;
        }
        self.findings.extend(other.findings);
    }

    fn count(&mut self, cell: Cell, workload: Workload) -> &mut Count {
        self.rows.entry((cell.order, cell.fault, workload, cell.database)).or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<44} {:<9} {:<9} {:>6} {:>9}", "fault", "workload", "database", "tries", "failures")?;
        for ((_, fault, workload, database), Count { tries, failures }) in &self.rows {
            writeln!(f, "{fault:<44} {:<9} {database:<9} {tries:>6} {failures:>9}", workload.word())?;
        }
        for (database, kills) in &self.kills {
            writeln!(f, "{kills} processes were killed on {database}")?;
        }
        Ok(())
    }
}
