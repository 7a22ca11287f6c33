//! `runs show`: one run, with everything that is known of it.

use redrive_control::Insight;
use redrive_control::shape::{RunEventShape, RunShape};
use redrive_core::run::Run;

use super::find;
use super::list::RUNS;
use crate::cli::RunShow;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &RunShow, insight: &Insight, context: &Context) -> Result<Exit> {
    let Some(run) = find(&args.run.id, insight).await? else {
        output::nothing("no run found", RUNS.columns, &context.global)?;
        return Ok(Exit::NothingFound);
    };
    let history = match args.history {
        true => Some(insight.run_history(&run).await?),
        false => None,
    };
    print(run, history, context)?;
    Ok(Exit::Done)
}

/// Prints a run in the format that is asked for, with what happened to it where that was read.
pub fn print(run: Run, history: Option<Vec<RunEventShape>>, context: &Context) -> Result<()> {
    let shape = RunShape { history, ..RunShape::from(run) };
    let value = serde_json::to_value(&shape)?;
    output::one(RUNS.columns, &shape, &context.global, || {
        let fields = output::cells(RUNS.columns, &value);
        let known = RUNS.columns.iter().zip(fields).filter(|(_, value)| !value.is_empty());
        let fields = output::pairs(known.map(|(name, value)| (*name, value)));
        let events = shape.history.iter().flatten().map(line);
        std::iter::once(fields).chain(events).collect::<Vec<_>>().join("\n")
    })
}

/// Something that happened to a run, in a line.
fn line(event: &RunEventShape) -> String {
    let worker = event.worker.as_ref().map_or_else(String::new, |worker| format!(" by {worker}"));
    let attempt = event.attempt.map_or_else(String::new, |attempt| format!(" attempt {attempt}"));
    let message = event.error_message.as_deref().map_or_else(String::new, |message| format!(": {message}"));
    let said = event.said.as_ref().map_or_else(String::new, |said| format!(": {said}"));
    format!("{} {}{attempt}{worker}{message}{said}", event.at, event.event.as_str())
}
