//! `ingest show`: the run of an upload, with the same fields as `runs show`, and for people what is missing.

use redrive_core::id::RunId;
use redrive_core::run::{Run, State};
use redrive_core::text::one_line;
use redrive_store::{FileFault, Upload, View};

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
    let mut notes = notes(&run, upload.as_ref());
    notes.extend(faults(insight.view(), run.run_id).await?);
    runs::show::print(run, None, context)?;
    if !context.global.quiet && context.global.output == Format::Table {
        notes.iter().for_each(|note| output::note(note));
    }
    Ok(Exit::Done)
}

/// How many faulty files are shown.
const SHOWN: u32 = 20;

/// Which files count as parse errors, and why.
async fn faults(view: &View, run_id: RunId) -> Result<Vec<String>> {
    let files = view.faulty_files(run_id, SHOWN + 1).await?;
    let more = files.len() > usize::try_from(SHOWN).unwrap_or(usize::MAX);
    let shown = files.iter().take(usize::try_from(SHOWN).unwrap_or(usize::MAX)).filter_map(|file| {
        let FileFault { kind, line, count, message } = file.fault.as_ref()?;
        let times = if *count > 1 { format!(", {count} times") } else { String::new() };
        Some(format!("{}:{line}: {} ({kind}{times})", one_line(&file.path), one_line(message)))
    });
    let mut faults: Vec<String> = shown.collect();
    if more {
        faults.push(format!("more than {SHOWN} files have parse errors; `redrive ingest lint {run_id}` shows all"));
    }
    Ok(faults)
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
