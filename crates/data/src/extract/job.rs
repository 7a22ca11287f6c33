//! One extraction: what an extractor is given, and what it hands on to templates and programs.

use std::ffi::OsStr;

use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;

use super::{Failure, MAX_RECORD_BYTES};
use crate::program::{Child, ChildTracker, Invocation, Start, Watch};
use crate::settings::Placeholders;

/// What is to be extracted.
#[derive(Debug, Clone)]
pub struct Job {
    pub key: PartitionKey,
    pub run_id: RunId,
    /// The first attempt is 1.
    pub attempt: u32,
    /// The query's text with its placeholders filled in, where the configuration has one.
    pub query: Option<String>,
    /// Counts the programs that are started for it. When the extraction has ended or was dropped, some of them may still
    /// be ending.
    pub children: ChildTracker,
}

#[derive(Debug, Clone, Copy)]
pub enum Placeholder {
    Source,
    CustomerId,
    QueryName,
    LogicalDate,
    NextDate,
    RunId,
    Query,
}

impl Placeholders for Job {
    type Name = Placeholder;
    const NAMES: &'static [(&'static str, Placeholder)] = &[
        ("source", Placeholder::Source),
        ("customer_id", Placeholder::CustomerId),
        ("query_name", Placeholder::QueryName),
        ("logical_date", Placeholder::LogicalDate),
        ("next_date", Placeholder::NextDate),
        ("run_id", Placeholder::RunId),
        ("query", Placeholder::Query),
    ];

    fn value(&self, name: Placeholder) -> String {
        match name {
            Placeholder::Source => self.key.source.to_string(),
            Placeholder::CustomerId => self.key.customer_id.to_string(),
            Placeholder::QueryName => self.key.query_name.to_string(),
            Placeholder::LogicalDate => self.key.logical_date.to_string(),
            Placeholder::NextDate => {
                let date = self.key.logical_date;
                date.tomorrow().unwrap_or(date).to_string()
            }
            Placeholder::RunId => self.run_id.to_string(),
            Placeholder::Query => self.query.clone().unwrap_or_default(),
        }
    }

    fn is_lasting(name: Placeholder) -> bool {
        match name {
            Placeholder::Source | Placeholder::CustomerId | Placeholder::QueryName => true,
            Placeholder::LogicalDate | Placeholder::NextDate | Placeholder::RunId | Placeholder::Query => false,
        }
    }
}

impl Job {
    /// What an attempt at this partition would be given, for a look at what it would need. No such attempt is made.
    pub(super) fn imagined(key: PartitionKey) -> Self {
        let run_id = RunId::new(Timestamp::from_micros(0), 0);
        Self { key, run_id, attempt: 1, query: None, children: ChildTracker::default() }
    }

    /// The variables that tell a program what the job is.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("REDRIVE_RUN_ID", self.run_id.to_string()),
            ("REDRIVE_SOURCE", self.key.source.to_string()),
            ("REDRIVE_CUSTOMER_ID", self.key.customer_id.to_string()),
            ("REDRIVE_QUERY_NAME", self.key.query_name.to_string()),
            ("REDRIVE_LOGICAL_DATE", self.key.logical_date.to_string()),
            ("REDRIVE_QUERY", self.query.clone().unwrap_or_default()),
            ("REDRIVE_ATTEMPT", self.attempt.to_string()),
        ]
    }

    /// Starts a program that brings records, with variables that name the partition.
    pub(super) fn start(&self, program: &Invocation, arguments: &[&OsStr], watch: Watch) -> Result<Child, Failure> {
        let env = self.variables();
        program.start(Start { arguments, env: &env, watch, ..Start::new(&self.children, MAX_RECORD_BYTES) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Template;
    use super::*;
    use crate::settings::Escape;

    #[test]
    fn a_template_names_the_partition_and_the_day_after() {
        let job = Job {
            key: PartitionKey::new("ads", "c", "daily", "2026-01-31").unwrap(),
            run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
            attempt: 1,
            query: Some("Q".to_owned()),
            children: ChildTracker::default(),
        };
        let template =
            Template::parse("{source} {customer_id} {query_name} [{logical_date},{next_date}) {query}").unwrap();
        assert_eq!(template.render(&job, Escape::Plain), "ads c daily [2026-01-31,2026-02-01) Q");
    }
}
