//! `ingest lint`: what a strict reader objects to, in uploads or in files that were never uploaded.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use redrive_conf::FileKind;
use redrive_control::shape::FindingShape;
use redrive_core::run::Work;
use redrive_data::ingest::archive::{self, Source};
use redrive_data::ingest::{self, Limits, Objection};
use redrive_store::raw::{BlobReader, Blobs};
use tokio::sync::mpsc;

use super::find;
use crate::cli::Lint;
use crate::commands::Context;
use crate::commands::sink::look_into_sink;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::{self, Exit};
use crate::input;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

/// How many findings may wait to be printed.
const AHEAD: usize = 256;

static FINDINGS: Layout = Layout {
    name: "findings",
    header: &[Column::text("file"), Column::number("line"), Column::new("kind"), Column::detail("finding")],
    columns: &["upload", "source_path", "line", "kind", "message"],
    nothing: Some("no findings"),
};

impl Row for FindingShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let line = Cell::new(self.line.to_string());
        vec![vec![Cell::new(&self.source_path), line, Cell::new(self.kind), Cell::new(&self.message)]]
    }
}

/// What is linted.
enum Subject {
    /// A file or a folder on this machine.
    Here(PathBuf),
    /// What comes on stdin, in a file of its own.
    Stdin(fs::File),
    /// An upload: the id of its run, its name, and its bytes in the sink.
    Stored { id: String, name: String, bytes: Box<BlobReader> },
}

/// What the thread that looks sends to the one that prints.
enum LintMessage {
    Finding(FindingShape),
    /// Something could not be looked at; the others are.
    Failed(Error),
}

pub async fn run(args: &Lint, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let (outbox, mut inbox) = mpsc::channel(AHEAD);
    let limits = config.ingestion.limits.clone();
    let (mut subjects, mut worst) = (Vec::new(), Exit::Done);
    for what in &args.what {
        match subject(what, &config, context).await {
            Ok(subject) => subjects.push(subject),
            // What cannot be looked at does not stop the others.
            Err(error) => worst = worst.worse(failed(&error)),
        }
    }
    let looking = tokio::task::spawn_blocking(move || {
        for subject in subjects {
            if let Err(error) = look(subject, &limits, &outbox) {
                let _ = outbox.blocking_send(LintMessage::Failed(error));
            }
        }
    });
    let mut listing = Listing::new(&FINDINGS, &context.global);
    while let Some(message) = inbox.recv().await {
        match message {
            LintMessage::Finding(finding) => listing.add(&finding)?,
            LintMessage::Failed(error) => worst = worst.worse(failed(&error)),
        }
    }
    looking.await?;
    let found = if listing.end()? == 0 { Exit::Done } else { Exit::SomeFailed };
    Ok(worst.worse(found))
}

fn failed(error: &Error) -> Exit {
    output::print_error(error);
    exit::code(error)
}

async fn subject(what: &str, config: &Config, context: &Context) -> Result<Subject> {
    if what == "-" {
        let copied = tokio::task::spawn_blocking(copy_stdin).await?;
        return Ok(Subject::Stdin(copied.map_err(Error::io("cannot read stdin"))?));
    }
    let path = Path::new(what);
    if path.exists() {
        return Ok(Subject::Here(path.to_owned()));
    }
    let is_id = what.len() >= 8 && what.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    if !is_id {
        return Err(Error::NothingFound(format!("{what} is neither a file here nor the id of a run")));
    }
    let insight = context.insight(config).await?;
    let run = find::upload(what, &insight).await?;
    let missing = || Error::NothingFound(format!("the bytes of run {} have not arrived", run.run_id));
    let upload = insight.view().upload(run.run_id).await?.ok_or_else(missing)?;
    look_into_sink(config, insight.view()).await?;
    let blobs = Blobs::open_to_read(&config.raw, &config.raw_options.s3).await?;
    let object = &upload.stored.object;
    let bytes = blobs.open_object(object).await?.ok_or_else(|| blobs.missing(object))?;
    let name = match &run.work {
        Work::Ingest { upload } => upload.clone(),
        Work::Extract(_) | Work::Process { .. } => String::new(),
    };
    Ok(Subject::Stored { id: run.run_id.to_string(), name, bytes: Box::new(bytes) })
}

/// Keeps what comes on stdin in a file without a name: an archive is read back and forth.
fn copy_stdin() -> io::Result<fs::File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    Ok(file)
}

type Findings = mpsc::Sender<LintMessage>;

fn look(subject: Subject, limits: &Limits, findings: &Findings) -> Result<()> {
    match subject {
        Subject::Stored { id, name, mut bytes } => look_into(&id, &name, &mut *bytes, limits, findings),
        Subject::Stdin(mut file) => look_into("stdin", "-", &mut file, limits, findings),
        Subject::Here(path) if path.is_dir() => {
            for file in files_below(&path).map_err(Error::io(format!("cannot read {}", path.display())))? {
                if let Err(error) = look_at(&file, limits, findings) {
                    let _ = findings.blocking_send(LintMessage::Failed(error));
                }
            }
            Ok(())
        }
        Subject::Here(path) => look_at(&path, limits, findings),
    }
}

fn look_at(path: &Path, limits: &Limits, findings: &Findings) -> Result<()> {
    let shown = path.display().to_string();
    let mut file = input::open(path).map_err(Error::io(format!("cannot read {shown}")))?;
    look_into(&shown, &shown, &mut file, limits, findings)
}

/// Reads an archive or a single file, and passes on what is found in it.
fn look_into(upload: &str, name: &str, source: &mut dyn Source, limits: &Limits, findings: &Findings) -> Result<()> {
    let mut tell = |objection: Objection<'_>| {
        let shape = match objection {
            Objection::Finding { path, finding } => FindingShape::new(upload, path, finding),
            Objection::Link { path, target, why } => FindingShape::of_link(upload, path, target, why),
        };
        match findings.blocking_send(LintMessage::Finding(shape)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    match ingest::lint(name, source, limits, &mut tell) {
        Ok(()) | Err(archive::Error::Stopped | archive::Error::Cancelled) => Ok(()),
        Err(archive::Error::Refused(refusal)) => {
            Err(Error::Refused(format!("{upload} cannot be read: {refusal} ({})", refusal.reason.as_str())))
        }
        Err(archive::Error::Storage(error)) => Err(Error::io(format!("cannot read {upload}"))(error)),
    }
}

/// The configuration files below a folder, in the order of their paths. Links are not followed.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && FileKind::of(&entry.path().to_string_lossy()).is_some() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
