//! `runs show`: one run, with everything that is known of it.

use redrive_control::Insight;
use redrive_control::shape::RunShape;
use redrive_core::run::Run;

use super::find;
use super::list::RUNS;
use crate::cli::RunArg;
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
    let value = serde_json::to_value(&shape)?;
    output::one(RUNS.columns, &shape, &context.global, || {
        let fields = output::cells(RUNS.columns, &value);
        let known = RUNS.columns.iter().zip(fields).filter(|(_, value)| !value.is_empty());
        output::pairs(known.map(|(name, value)| vec![(*name).to_owned(), value]).collect())
    })
}
