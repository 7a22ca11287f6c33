//! `runs show`: one run, with everything that is known of it.

use redrive_control::Insight;
use redrive_control::shape::RunShape;
use redrive_core::run::Run;
use redrive_core::text::one_line;

use super::find;
use super::list::RUNS;
use crate::cli::{Format, RunArg};
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &RunArg, insight: &Insight, context: &Context) -> Result<Exit> {
    let Some(run) = find(&args.id, insight).await? else {
        output::nothing("no run found", RUNS.columns, &context.global)?;
        return Ok(Exit::NothingFound);
    };
    print(run, context)?;
    Ok(Exit::Done)
}

/// Prints a run in the format that is asked for.
pub fn print(run: Run, context: &Context) -> Result<()> {
    let shape = RunShape::from(run);
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&shape),
        Format::Csv => output::record(RUNS.columns, &shape),
        Format::Table => {
            let fields = output::cells(RUNS.columns, &serde_json::to_value(&shape)?);
            let known = RUNS.columns.iter().zip(fields).filter(|(_, value)| !value.is_empty());
            let rows = known.map(|(name, value)| vec![(*name).to_owned(), one_line(&value)]).collect();
            output::line(&output::pairs(rows))
        }
    }
}
