//! `ingest upload`: brings archives into the sink and queues their runs; with `--wait`, until they are parsed.

use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt as _;
use redrive_control::shape::UploadShape;
use redrive_core::count;
use redrive_core::run::{Run, State, label};
use redrive_data::ingest::Uploads;
use redrive_store::{Store, Upload};
use tokio::time::Instant;

use super::body::Body;
use crate::cli;
use crate::commands::sink::open_sink;
use crate::commands::{Context, Missing, open};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::{self, Exit};
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::progress::{Progress, Style};
use crate::output::terminal::Times;

/// How often to look how far parsing is.
const LOOK: Duration = Duration::from_millis(100);

static UPLOADS: Layout = Layout {
    name: "runs",
    header: &[Column::new("id"), Column::text("file"), Column::new("status")],
    columns: &["id", "file", "status"],
    nothing: None,
};

impl Row for UploadShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![vec![Cell::new(self.id.to_string()), Cell::new(&self.file), Cell::state(self.status)]]
    }
}

pub async fn run(args: &cli::Upload, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let store = open(&config, Missing::Make, context).await?;
    let uploads = uploads(&config, &store).await?;
    let (mut all, mut worst) = (Vec::new(), Exit::Done);
    for file in &args.files {
        let uploading = async {
            tokio::select! {
                uploaded = upload(&uploads, file, context) => uploaded,
                () = context.stop.requested() => Err(Error::Interrupted),
            }
        };
        match uploading.await {
            Ok(uploaded) => all.push(uploaded),
            Err(Error::Interrupted) => {
                let name = file.display();
                output::note(&format!("{name} was not taken whole; `redrive ingest list` shows what has arrived"));
                return Err(Error::Interrupted);
            }
            // One file that cannot be read does not stop the others.
            Err(error) => {
                output::print_error(&error);
                worst = worst.worse(exit::code(&error));
            }
        }
    }
    if args.wait {
        worst = worst.worse(wait(&store, &mut all, args.timeout, context).await?);
    }
    let shapes: Vec<_> = all.iter().map(|(run, upload)| UploadShape::new(run, upload.same_as)).collect();
    if !shapes.is_empty() || worst == Exit::Done {
        output::ignore_broken_pipe(Listing::print(&UPLOADS, &context.global, &shapes))?;
    }
    Ok(worst)
}

/// What uploads go through, by the configuration.
pub async fn uploads(config: &Config, store: &Store) -> Result<Uploads> {
    let sink = open_sink(config, store).await?;
    Ok(Uploads::new(store.data(), sink.blobs(), config.ingestion.max_upload))
}

async fn upload(uploads: &Uploads, file: &Path, context: &Context) -> Result<(Run, Upload)> {
    let body = Body::open(file).await?;
    let progress = Progress::start(Style::Bytes, context.global.quiet);
    body.size.into_iter().for_each(|size| progress.of(size));
    progress.message(body.name.clone());
    let mut sent = 0;
    let bytes = body.bytes.inspect(|piece| {
        if let Ok(piece) = piece {
            sent += count::of(piece.len());
            progress.to(sent);
        }
    });
    let uploaded = uploads.upload(&body.name, body.size, bytes).await;
    progress.clear();
    body.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|note| output::note(note));
    let uploaded = uploaded?;
    if let Some(earlier) = uploaded.upload.same_as
        && !context.global.quiet
    {
        output::note(&format!("{}: the same bytes were uploaded before, as run {earlier}", body.name));
    }
    Ok((uploaded.run, uploaded.upload))
}

/// Waits until every run is COMPLETE or FAILED.
async fn wait(store: &Store, all: &mut [(Run, Upload)], patience: Duration, context: &Context) -> Result<Exit> {
    let progress = Progress::start(Style::Phases, context.global.quiet);
    let view = store.view();
    let mut touched = Instant::now();
    loop {
        let (mut open, mut worst) = (Vec::new(), Exit::Done);
        for (run, _) in all.iter_mut() {
            let now = view.run(run.run_id).await?.unwrap_or_else(|| run.clone());
            if now.state != run.state || now.last_heartbeat != run.last_heartbeat {
                touched = Instant::now();
            }
            *run = now;
            match run.state {
                State::Done => {}
                State::Dead => worst = Exit::SomeFailed,
                State::Storing | State::Queued | State::Running | State::Waiting => open.push(run.clone()),
            }
        }
        let Some(first) = open.first() else { return Ok(worst) };
        if open.iter().all(|run| run.state == State::Queued) && touched.elapsed() > patience {
            progress.clear();
            let (id, seconds) = (first.run_id, patience.as_secs());
            output::note(&format!(
                "no worker has taken run {id} within {seconds} s; start one by `redrive worker --workload ingest`, then \
                 see `redrive ingest show {id}`"
            ));
            return Ok(Exit::SomeFailed);
        }
        progress.message(format!("{} of {} open, {} is {}", open.len(), all.len(), first.run_id, label(first)));
        tokio::time::sleep(LOOK).await;
    }
}
