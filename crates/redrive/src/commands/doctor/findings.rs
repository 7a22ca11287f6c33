//! What was found: a line for each check, and every item that is broken by name.

use redrive_core::id::RunId;
use redrive_core::invariants::Breach;
use redrive_core::key::PartitionKey;
use redrive_core::text::one_line;
use serde::Serialize;

use crate::cli::Format;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column, Columns};

/// How many broken items a person is shown.
const SHOWN: usize = 20;
const FAIL: &str = "fail";

#[derive(Debug, Serialize)]
pub struct Finding {
    pub check: &'static str,
    /// `ok`, `warn` or `fail`.
    pub level: &'static str,
    pub ok: bool,
    /// Nothing is wrong, and yet the operator may want to know.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub note: bool,
    pub says: String,
    #[serde(skip)]
    exit: Exit,
}

impl Finding {
    pub fn good(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, level: "ok", ok: true, note: false, says: says.into(), exit: Exit::Done }
    }

    pub fn note(check: &'static str, says: impl Into<String>) -> Self {
        Self { level: "warn", note: true, ..Self::good(check, says) }
    }

    /// Something that must hold does not.
    pub fn broken(check: &'static str, says: impl Into<String>) -> Self {
        Self { level: FAIL, ok: false, exit: Exit::SomeFailed, ..Self::good(check, says) }
    }

    /// It could not be looked at.
    pub fn unusable(check: &'static str, says: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, ..Self::broken(check, says) }
    }
}

/// One thing that is broken.
#[derive(Debug, Serialize)]
pub struct Broken {
    pub check: &'static str,
    #[serde(flatten)]
    pub key: Option<PartitionKey>,
    pub run_id: Option<RunId>,
    /// One word for scripts.
    pub breach: &'static str,
    pub says: String,
}

impl Broken {
    pub fn breach(check: &'static str, breach: Breach) -> Self {
        let (run_id, word, says) = (breach.flaw.run_id(), breach.flaw.word(), breach.to_string());
        Self { check, key: Some(breach.key), run_id, breach: word, says }
    }
}

#[derive(Debug)]
pub struct Findings {
    format: Format,
    checks: Vec<Finding>,
    breaches: Vec<Broken>,
    untold: u64,
}

impl Findings {
    pub fn new(format: Format) -> Self {
        Self { format, checks: Vec::new(), breaches: Vec::new(), untold: 0 }
    }

    pub fn add(&mut self, finding: Finding) {
        self.checks.push(finding);
    }

    /// Keeps a broken item; for a person no more than can be read.
    pub fn name(&mut self, broken: Broken) {
        match self.format {
            Format::Table if self.breaches.len() >= SHOWN => self.untold += 1,
            Format::Table | Format::Json | Format::Jsonl | Format::Csv => self.breaches.push(broken),
        }
    }

    pub fn checks(&self) -> &[Finding] {
        &self.checks
    }

    /// What cannot be looked at outweighs what is broken.
    pub fn exit(&self) -> Exit {
        let any = |exit| self.checks.iter().any(|finding| finding.exit == exit);
        match (any(Exit::Unavailable), any(Exit::SomeFailed)) {
            (true, _) => Exit::Unavailable,
            (false, true) => Exit::SomeFailed,
            (false, false) => Exit::Done,
        }
    }

    pub fn report(&self) -> Result<()> {
        match self.format {
            Format::Json => output::json(&serde_json::json!({"checks": self.checks, "breaches": self.breaches}))?,
            Format::Jsonl => {
                self.checks.iter().try_for_each(output::json)?;
                self.breaches.iter().try_for_each(output::json)?;
            }
            Format::Csv => {
                let named = self.breaches.iter().map(|broken| row(FAIL, broken.check, &broken.says));
                let names = ["ok", "check", "finding"];
                output::csv_header(&names)?;
                self.rows().chain(named).try_for_each(|row| output::csv(&row))?;
            }
            Format::Table => self.table()?,
        }
        Ok(())
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.checks.iter().map(|finding| row(finding.level, finding.check, &finding.says))
    }

    fn table(&self) -> Result<()> {
        let mut table = Columns::new(&[Column::new(""), Column::new("check"), Column::new("finding")]);
        for Finding { level, check, says, .. } in &self.checks {
            table.add(vec![Cell::state(level), Cell::new(check), Cell::new(says)]);
        }
        // What to do stands at a finding's end: none is cut.
        output::line(&table.lines(None).join("\n"))?;
        if self.breaches.is_empty() {
            return Ok(());
        }
        output::line("")?;
        self.breaches.iter().try_for_each(|broken| output::line(&one_line(&broken.says)))?;
        if self.untold > 0 {
            output::line(&format!("and {} more; `-o json` names all of them", self.untold))?;
        }
        Ok(())
    }
}

fn row(word: &str, check: &str, says: &str) -> Vec<String> {
    vec![word.to_owned(), check.to_owned(), says.to_owned()]
}
