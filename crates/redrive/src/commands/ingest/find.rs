//! Finds the run that an id, or the beginning of one, stands for.

use redrive_control::Insight;
use redrive_core::run::{Run, State, Workload, label};

use crate::commands::{Context, runs};
use crate::error::{Error, Result};
use crate::output;

/// Gives the upload's run. Where there is none, or where it is no upload, nothing was found.
pub async fn upload(id: &str, insight: &Insight) -> Result<Run> {
    let absent = || Error::NothingFound(format!("no upload {id} found; `redrive ingest list` shows all"));
    let run = runs::find(id, insight).await?.ok_or_else(absent)?;
    match run.workload() {
        Workload::Ingest => Ok(run),
        Workload::Extract | Workload::Process => Err(Error::NothingFound(format!(
            "{id} is a run of {}, not an upload; see `redrive runs show {id}`",
            run.workload()
        ))),
    }
}

/// The run of an upload whose stanzas are asked for. What is not COMPLETE may not be all.
pub async fn parsed(id: &str, insight: &Insight, context: &Context) -> Result<Run> {
    let run = upload(id, insight).await?;
    if run.state != State::Done && !context.global.quiet {
        let id = run.run_id;
        output::note(&format!(
            "run {id} is {}: these are not all stanzas; see `redrive ingest show {id}`",
            label(&run)
        ));
    }
    Ok(run)
}
