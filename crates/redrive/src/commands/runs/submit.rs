//! `runs submit`: one job from flags, or many from JSON lines.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use redrive_control::ControlPlane;
use redrive_control::runs::Queues;
use redrive_control::shape::SubmittedShape;
use redrive_core::count::grouped;
use redrive_core::run::Job;
use redrive_core::time::Timestamp;
use serde_json::value::RawValue;

use super::filter;
use super::jsonl::{self, Read, Stop};
use crate::cli::{Format, Submit};
use crate::commands::{Context, Missing};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::progress::{Progress, Style};
use crate::output::terminal::Times;
use crate::stop::StopSignals;

static SUBMITTED: Layout = Layout {
    name: "runs",
    header: &[Column::new("id"), Column::new("existing")],
    columns: &["id", "existing"],
    nothing: Some("no jobs"),
};

/// How much of a file is read at once.
const BUFFER: usize = 256 << 10;

impl Row for SubmittedShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![vec![Cell::new(self.id.to_string()), Cell::new(if self.existing { "existing" } else { "new" })]]
    }
}

pub async fn run(args: &Submit, config: &Config, context: &Context) -> Result<Exit> {
    if let Some(file) = &args.jsonl {
        let input = Input::open(file)?;
        let plane = context.control(config, Missing::Make).await?;
        let strangers = Strangers::of(config, context);
        return many(input, args.category.clone(), &plane, strangers, context).await;
    }
    // Checks the flags before a database is made. Only spans such as "2h" need the database's time, so any time will do here.
    one(args, Timestamp::from_micros(0))?;
    let plane = context.control(config, Missing::Make).await?;
    let job = one(args, plane.insight().now())?;
    let strangers = Strangers::of(config, context);
    let category = job.category.clone();
    let submitted: Vec<_> = plane.submit(vec![job]).await?.into_iter().map(SubmittedShape::from).collect();
    output::ignore_broken_pipe(Listing::print(&SUBMITTED, &context.global, &submitted))?;
    strangers.with(category.iter()).say();
    Ok(Exit::Done)
}

/// Categories of submitted jobs that no section of the configuration serves. They are taken all the same: another machine's may.
struct Strangers<'a> {
    queues: &'a Queues,
    quiet: bool,
    found: BTreeSet<String>,
    are_more: bool,
}

/// How many categories are named.
const NAMED: usize = 10;

impl<'a> Strangers<'a> {
    fn of(config: &'a Config, context: &Context) -> Self {
        Self { queues: &config.queues, quiet: context.global.quiet, found: BTreeSet::new(), are_more: false }
    }

    fn with<'c>(mut self, categories: impl Iterator<Item = &'c String>) -> Self {
        self.add(categories);
        self
    }

    fn add<'c>(&mut self, categories: impl Iterator<Item = &'c String>) {
        for category in categories.filter(|category| self.queues.of(category).is_none()) {
            if self.found.len() < NAMED {
                self.found.insert(category.clone());
            } else {
                self.are_more |= !self.found.contains(category);
            }
        }
    }

    fn say(&self) {
        if self.quiet || self.found.is_empty() {
            return;
        }
        let named: Vec<String> = self.found.iter().map(|category| format!("{category:?}")).collect();
        let more = if self.are_more { " and others" } else { "" };
        output::note(&format!(
            "no [process] section of this configuration serves {}{more}; the jobs wait until one does",
            named.join(", ")
        ));
    }
}

fn one(args: &Submit, now: Timestamp) -> Result<Job> {
    let payload = args.payload.as_ref().map(|text| {
        serde_json::from_str::<Box<RawValue>>(text).map_err(|error| {
            Error::Usage(format!("--payload is not JSON: {error}; a text is written with quotes, like '\"text\"'"))
        })
    });
    let job = Job {
        category: args.category.clone(),
        payload: payload.transpose()?,
        external_id: args.external_id.clone(),
        submitted_at: args.submitted_at.as_deref().map(|text| filter::moment("--submitted-at", text)).transpose()?,
        not_before: args
            .not_before
            .as_deref()
            .map(|text| filter::moment_or_span("--not-before", text, now))
            .transpose()?,
        max_attempts: args.max_attempts,
    };
    job.check().map_err(|error| Error::Usage(format!("the job cannot be submitted: {error}")))?;
    Ok(job)
}

/// Where the lines of many jobs come from.
struct Input {
    name: String,
    /// How long it is, where that can be known.
    bytes: Option<u64>,
    lines: Box<dyn BufRead + Send>,
}

impl Input {
    fn open(file: &Path) -> Result<Self> {
        if file == Path::new("-") {
            let lines = Box::new(BufReader::with_capacity(BUFFER, io::stdin()));
            return Ok(Self { name: "stdin".to_owned(), bytes: None, lines });
        }
        let unreadable = |error| Error::Usage(format!("cannot read {}: {error}", file.display()));
        let opened = File::open(file).map_err(unreadable)?;
        let bytes = opened.metadata().ok().filter(Metadata::is_file).map(|file| file.len());
        let lines = Box::new(BufReader::with_capacity(BUFFER, opened));
        Ok(Self { name: file.display().to_string(), bytes, lines })
    }
}

/// What was done, while it is done.
struct Tally<W: Write> {
    /// Every job, where the format lists them; a table shows only their number.
    listing: Option<Listing<W>>,
    /// Stdout was closed, and the rest is submitted all the same.
    closed: bool,
    new: u64,
    existing: u64,
}

impl<W: Write> Tally<W> {
    fn add(&mut self, submitted: Vec<SubmittedShape>) -> Result<()> {
        for shape in submitted {
            *(if shape.existing { &mut self.existing } else { &mut self.new }) += 1;
            if let Some(listing) = self.listing.as_mut().filter(|_| !self.closed) {
                match listing.add(&shape) {
                    Err(error) if error.is_broken_pipe() => self.closed = true,
                    added => added?,
                }
            }
        }
        Ok(())
    }

    fn all(&self) -> u64 {
        self.new + self.existing
    }
}

/// Why submitting ended.
enum End {
    File,
    Stopped(Stop),
    Interrupted,
    Fault(redrive_control::Error),
}

async fn many(
    Input { name, bytes, lines }: Input,
    category: Option<String>,
    plane: &ControlPlane,
    mut strangers: Strangers<'_>,
    context: &Context,
) -> Result<Exit> {
    let listing = match context.global.output {
        Format::Table => None,
        Format::Json | Format::Jsonl | Format::Csv => Some(Listing::new(&SUBMITTED, &context.global)),
    };
    let mut tally = Tally { listing, closed: false, new: 0, existing: 0 };
    let style = if bytes.is_some() { Style::JobsOfFile } else { Style::Jobs };
    let progress = Progress::start(style, context.global.quiet);
    bytes.into_iter().for_each(|bytes| progress.of(bytes));
    let read = jsonl::start(lines, category);
    let end = submit_all(read, plane, &mut tally, &mut strangers, &progress, &context.stop).await?;
    progress.clear();
    strangers.say();
    let (all, new, existing) = (tally.all(), tally.new, tally.existing);
    if let Some(listing) = tally.listing.take().filter(|_| !tally.closed) {
        output::ignore_broken_pipe(listing.end().map(drop))?;
    }
    match end {
        End::File => {
            if context.global.output == Format::Table {
                output::ignore_broken_pipe(output::line(&format!("{new} submitted, {existing} were there already")))?;
            }
            Ok(Exit::Done)
        }
        End::Stopped(Stop::Line { number, why }) => Err(Error::Usage(format!(
            "line {number} of {name} is no job: {why}; the {all} jobs before it were taken ({new} new, {existing} there already)"
        ))),
        End::Stopped(Stop::Io(error)) => {
            Err(Error::io(format!("cannot read {name} any further; {all} jobs before that were taken"))(error))
        }
        End::Interrupted => {
            output::note(&format!("interrupted; {all} jobs were taken by then ({new} new, {existing} there already)"));
            Err(Error::Interrupted)
        }
        End::Fault(error) => {
            output::note(&format!("{all} jobs were taken before this ({new} new, {existing} there already)"));
            Err(error.into())
        }
    }
}

async fn submit_all<W: Write>(
    mut read: tokio::sync::mpsc::Receiver<Read>,
    plane: &ControlPlane,
    tally: &mut Tally<W>,
    strangers: &mut Strangers<'_>,
    progress: &Progress,
    stop: &StopSignals,
) -> Result<End> {
    loop {
        let next = tokio::select! {
            biased;
            () = stop.requested() => return Ok(End::Interrupted),
            next = read.recv() => next,
        };
        let bytes = match next {
            None => return Ok(End::File),
            Some(Read::Stopped(stop)) => return Ok(End::Stopped(stop)),
            Some(Read::Jobs(jobs, bytes)) => {
                strangers.add(jobs.iter().filter_map(|job| job.category.as_ref()));
                match plane.submit(jobs).await {
                    Ok(submitted) => tally.add(submitted.into_iter().map(SubmittedShape::from).collect())?,
                    Err(error) => return Ok(End::Fault(error)),
                }
                bytes
            }
        };
        progress.message(format!("{} jobs", grouped(tally.all())));
        progress.to(bytes);
    }
}
