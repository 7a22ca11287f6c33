//! `data ls`: which runs are current, how much is in them and where they lie. Printed page by page, however many.

use std::io::{BufWriter, Stdout};

use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use serde::Serialize;

use redrive_store::CurrentRun;

use super::current::CurrentRuns;
use crate::cli::DataLs;
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::{self, Exit};
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{self, Layout, Listing, Row};
use crate::output::terminal::Times;

static DATA: Layout = Layout {
    name: "data",
    header: &[
        Column::new("source"),
        Column::new("customer"),
        Column::new("query"),
        Column::new("date"),
        Column::new("run_id").spared(1),
        Column::number("records"),
        Column::number("bytes"),
        Column::number("parts").spared(2),
    ],
    columns: &["source", "customer_id", "query_name", "logical_date", "run_id", "records", "bytes", "parts", "path"],
    nothing: None,
};

/// A run as JSON has it.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    key: PartitionKey,
    run_id: RunId,
    records: u64,
    bytes: u64,
    path: String,
    files: Vec<String>,
}

impl Entry {
    fn of(run: CurrentRun, runs: &CurrentRuns) -> Self {
        let CurrentRun { state, run_id, manifest } = run;
        let path = runs.runs().raw.directory(&state.key, run_id);
        let files = manifest.parts.iter().map(|part| format!("{path}/{}", part.name)).collect();
        Self { key: state.key, run_id, records: manifest.records, bytes: manifest.bytes, path, files }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = [self.records.to_string(), self.bytes.to_string(), self.files.len().to_string()];
        [output::key(&self.key), vec![self.run_id.to_string()], numbers.to_vec()].concat()
    }
}

impl Row for Entry {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![self.cells().into_iter().map(Cell::new).collect()]
    }

    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        Ok(vec![[self.cells(), vec![self.path.clone()]].concat()])
    }
}

pub async fn run(args: &DataLs, runs: &CurrentRuns, context: &Context) -> Result<Exit> {
    let filter = runs.filter(&args.filter, context.global.quiet).await?;
    let mut listing = match args.paths {
        true => Output::Paths(listing::stdout(), 0),
        false => Output::Rows(Listing::new(&DATA, &context.global)),
    };
    let (mut pages, mut worst) = (runs.runs().pages(&filter), None);
    loop {
        let page = pages.next_runs().await?;
        if page.is_empty() {
            break;
        }
        for run in page {
            match run.map_err(Error::from) {
                Ok(run) => listing.add(&Entry::of(run, runs))?,
                // A damaged run is reported, and does not hide the others.
                Err(error) if is_of_one(&error) => {
                    output::print_error(&error);
                    worst.get_or_insert(exit::code(&error));
                }
                Err(error) => return Err(error),
            }
        }
    }
    match (listing.end()?, worst) {
        (_, Some(exit)) => Ok(exit),
        (0, None) => Err(runs.explain_absence(&filter).await),
        (_, None) => Ok(Exit::Done),
    }
}

/// Whether an error is about one run, and not about the sink as a whole.
fn is_of_one(error: &Error) -> bool {
    use redrive_store::raw::Error::{Damaged, Format, Manifest};
    matches!(error, Error::Unreadable(_) | Error::Raw(Damaged(_) | Manifest { .. } | Format { .. }))
}

/// Rows about runs, or with `--paths` the names of their files alone.
enum Output {
    Rows(Listing<BufWriter<Stdout>>),
    Paths(BufWriter<Stdout>, u64),
}

impl Output {
    fn add(&mut self, entry: &Entry) -> Result<()> {
        match self {
            Self::Rows(listing) => listing.add(entry),
            Self::Paths(out, count) => {
                *count += 1;
                entry.files.iter().try_for_each(|file| output::write(out, format!("{file}\n").as_bytes()))
            }
        }
    }

    /// Gives how many runs there were.
    fn end(self) -> Result<u64> {
        match self {
            Self::Rows(listing) => listing.end(),
            Self::Paths(mut out, count) => output::flush(&mut out).map(|()| count),
        }
    }
}
