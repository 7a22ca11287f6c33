//! `data ls`: which runs are current, how much is in them and where they lie. Printed page by page, however many.

use redrive_core::key::PartitionKey;
use serde::Serialize;

use super::absence;
use super::pipe::Pipe;
use super::shelf::{Item, Shelf};
use crate::cli::{DataLs, Format};
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::{self, Exit};
use crate::output::{self, Pages};

const HEADER: [&str; 8] = ["source", "customer", "query", "date", "run_id", "records", "bytes", "parts"];
const CSV_HEADER: [&str; 9] =
    ["source", "customer_id", "query_name", "logical_date", "run_id", "records", "bytes", "parts", "path"];

/// A run as JSON has it.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    key: &'a PartitionKey,
    run_id: String,
    records: u64,
    bytes: u64,
    path: String,
    files: Vec<String>,
}

impl<'a> Entry<'a> {
    fn of(item: &'a Item, shelf: &Shelf) -> Self {
        let path = shelf.raw.directory(&item.state.key, item.run_id);
        let files = item.manifest.parts.iter().map(|part| format!("{path}/{}", part.name)).collect();
        let Item { state, run_id, manifest } = item;
        let (records, bytes) = (manifest.records, manifest.bytes);
        Self { key: &state.key, run_id: run_id.to_string(), records, bytes, path, files }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = [self.records.to_string(), self.bytes.to_string(), self.files.len().to_string()];
        [output::key(self.key), vec![self.run_id.clone()], numbers.to_vec()].concat()
    }
}

/// How the listing is written.
#[derive(Clone, Copy)]
enum Style {
    Paths,
    As(Format),
}

pub async fn run(args: &DataLs, shelf: &Shelf, context: &Context) -> Result<Exit> {
    let filter = shelf.filter(&args.filter, context.global.quiet)?;
    let style = if args.paths { Style::Paths } else { Style::As(context.global.output) };
    let mut listing = Listing { pipe: Pipe::new(), style, table: Pages::default(), count: 0 };
    let mut matches = shelf.matches(&filter);
    let mut worst = None;
    loop {
        let page = matches.next_items().await?;
        if page.is_empty() {
            break;
        }
        let mut items = Vec::with_capacity(page.len());
        for item in page {
            match item {
                Ok(item) => items.push(item),
                // One that is damaged is told, and does not hide the others.
                Err(error) if is_of_one(&error) => {
                    output::print_error(&error);
                    worst.get_or_insert(exit::code(&error));
                }
                Err(error) => return Err(error),
            }
        }
        if !items.is_empty() {
            listing.page(&items.iter().map(|item| Entry::of(item, shelf)).collect::<Vec<_>>())?;
        }
    }
    let any = listing.count > 0;
    listing.end()?;
    match worst {
        Some(exit) => Ok(exit),
        None if any => Ok(Exit::Done),
        None => Err(absence::explain(&filter, shelf).await),
    }
}

/// Whether an error is about one run, and not about the sink as a whole.
fn is_of_one(error: &Error) -> bool {
    use redrive_store::raw::Error::{Damaged, Format, Manifest};
    matches!(error, Error::Unreadable(_) | Error::Raw(Damaged(_) | Manifest { .. } | Format { .. }))
}

struct Listing {
    pipe: Pipe,
    style: Style,
    table: Pages,
    count: u64,
}

impl Listing {
    fn page(&mut self, entries: &[Entry<'_>]) -> Result<()> {
        match self.style {
            Style::Paths => entries.iter().flat_map(|entry| &entry.files).try_for_each(|file| self.pipe.line(file))?,
            Style::As(Format::Json) => {
                for (nth, entry) in entries.iter().enumerate() {
                    let before = if self.count == 0 && nth == 0 { "{\"data\":[" } else { "," };
                    self.pipe.write(before.as_bytes())?;
                    self.pipe.write(&serde_json::to_vec(entry)?)?;
                }
            }
            Style::As(Format::Jsonl) => {
                entries.iter().try_for_each(|entry| self.pipe.line(&serde_json::to_string(entry)?))?;
            }
            Style::As(Format::Csv) => {
                if self.count == 0 {
                    self.pipe.line(&CSV_HEADER.join(","))?;
                }
                for entry in entries {
                    self.pipe.line(&output::csv_row(&[entry.cells(), vec![entry.path.clone()]].concat()))?;
                }
            }
            Style::As(Format::Table) => {
                let rows = entries.iter().map(Entry::cells).collect();
                self.pipe.line(&self.table.next(&HEADER, rows))?;
            }
        }
        self.count += u64::try_from(entries.len()).unwrap_or(u64::MAX);
        self.pipe.flush()
    }

    fn end(mut self) -> Result<()> {
        match self.style {
            Style::As(Format::Json) if self.count == 0 => self.pipe.line("{\"data\":[]}")?,
            Style::As(Format::Json) => self.pipe.line("]}")?,
            Style::As(Format::Csv) if self.count == 0 => self.pipe.line(&CSV_HEADER.join(","))?,
            Style::Paths | Style::As(Format::Table | Format::Jsonl | Format::Csv) => {}
        }
        self.pipe.end()
    }
}
