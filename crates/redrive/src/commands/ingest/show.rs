//! `ingest show`: the run of an upload, with the same fields as `runs show`, and for people what is missing.

use redrive_core::run::{Run, State};
use redrive_store::Upload;

use super::find;
use crate::cli::{Format, UploadArg};
use crate::commands::{Context, runs};
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &UploadArg, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let run = find::upload(&args.run, &insight).await?;
    let upload = insight.view().upload(run.run_id).await?;
    let notes = notes(&run, upload.as_ref());
    runs::show::print(run, context)?;
    if !context.global.quiet && context.global.output == Format::Table {
        notes.iter().for_each(|note| output::note(note));
    }
    Ok(Exit::Done)
}

/// What people may want to know besides.
fn notes(run: &Run, upload: Option<&Upload>) -> Vec<String> {
    let mut notes = Vec::new();
    match run.state {
        State::Storing => notes.push(
            "its bytes have not arrived: either they are on their way, or the upload was broken off; then upload the \
             file again, which makes a new run"
                .to_owned(),
        ),
        State::Queued => notes.push("it waits for a worker; `redrive worker --workload ingest` is one".to_owned()),
        State::Running | State::Waiting | State::Done | State::Dead => {}
    }
    if let Some(upload) = upload {
        notes.push(format!("{} bytes, sha256 {}", upload.stored.bytes, upload.stored.sha256));
        notes.extend(upload.same_as.map(|earlier| format!("the same bytes were uploaded before, as run {earlier}")));
    }
    notes
}
