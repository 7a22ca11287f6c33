//! `data cat --run`: what one attempt brought, whatever became of it, and what its programs said.

use futures_util::TryStreamExt as _;
use redrive_core::key::PartitionKey;
use redrive_core::run::{Run, State, Verdict};
use redrive_core::text::one_line;

use super::current::CurrentRuns;
use crate::cli::DataCat;
use crate::commands::Context;
use crate::commands::runs::find;
use crate::commands::state::filter;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(id: &str, args: &DataCat, runs: &CurrentRuns, context: &Context) -> Result<Exit> {
    let nothing = |why: String| Err(Error::NothingFound(why));
    let filter = filter::resolve(&args.filter, &runs.insight, context.global.quiet).await?;
    let Some(run) = find(id, &runs.insight).await? else { return nothing(format!("there is no run {id}")) };
    let Some(key) = run.key().cloned() else {
        return nothing(format!("run {} is no attempt at a partition; see `redrive runs show`", run.run_id));
    };
    if !filter.is_empty() && filter.as_key().is_none_or(|asked| asked != key) {
        return nothing(format!("run {} is an attempt at {key}; name that, or leave the filter out", run.run_id));
    }
    if !context.global.quiet {
        output::note(&format!("attempt {} at {key}, run {}: {}", run.attempt, run.run_id, became(&run)));
    }
    match args.stderr {
        true => stderr(&run),
        false => records(&run, &key, runs).await,
    }
}

/// What became of the attempt.
fn became(run: &Run) -> String {
    let why = run.error_message.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let class = run.error_class.map(|class| format!("{class}")).unwrap_or_default();
    match (run.state, run.verdict) {
        (State::Done, Some(Verdict::Passed)) => "accepted".to_owned(),
        (State::Running, _) => "it is under way".to_owned(),
        (_, Some(Verdict::Failed)) => format!("rejected, {class}{why}"),
        (_, _) => format!("it has no verdict{why}"),
    }
}

async fn records(run: &Run, key: &PartitionKey, runs: &CurrentRuns) -> Result<Exit> {
    let Some(manifest) = runs.runs().raw.manifest(key, run.run_id).await? else {
        let why = "it has left nothing in the raw sink that was finished";
        return Err(Error::NothingFound(format!("run {} has no data: {why}", run.run_id)));
    };
    let mut out = output::listing::stdout();
    let mut chunks = runs.runs().raw.chunks(&manifest);
    while let Some(chunk) = chunks.try_next().await? {
        output::write(&mut out, &chunk)?;
    }
    output::flush(&mut out)?;
    Ok(Exit::Done)
}

fn stderr(run: &Run) -> Result<Exit> {
    let Some(trace) = &run.error_traceback else {
        let why = "only of attempts that were rejected is it kept, and not all have programs that write there";
        return Err(Error::NothingFound(format!("nothing of stderr was kept of run {}; {why}", run.run_id)));
    };
    let mut out = output::listing::stdout();
    output::write(&mut out, trace.as_bytes())?;
    if !trace.ends_with('\n') {
        output::write(&mut out, b"\n")?;
    }
    output::flush(&mut out)?;
    Ok(Exit::Done)
}
