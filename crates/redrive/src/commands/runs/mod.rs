//! `redrive runs …`: the operator's side of the run queue.

mod change;
mod drain;
mod explain;
pub(super) mod filter;
mod groups;
mod jsonl;
mod list;
mod prune;
pub mod show;
mod submit;

use redrive_control::{Found, IdPrefix, Insight, NoId, RunVerb};
use redrive_core::id::RunId;
use redrive_core::run::Run;

use super::Context;
use super::state::change::StateChanges;
use crate::cli::Runs;
use crate::error::{Error, Result};
use crate::exit::Exit;

pub async fn run(command: Runs, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = || context.insight(&config);
    let changes = change::RunChanges(StateChanges { config: &config, context });
    match command {
        Runs::Submit(args) => submit::run(&args, &config, context).await,
        Runs::List(args) => list::run(&args, &insight().await?, context).await,
        Runs::Show(args) => show::run(&args, &insight().await?, context).await,
        Runs::Groups(args) => groups::run(&args, &insight().await?, context).await,
        Runs::Explain(args) => explain::run(&args, &insight().await?, context).await,
        Runs::Retry(args) => changes.change(RunVerb::Retry, &args).await,
        Runs::Cancel(args) => changes.change(RunVerb::Cancel, &args).await,
        Runs::Prune(args) if args.dry_run => prune::foresee(&args, &insight().await?, context).await,
        Runs::Prune(args) => prune::run(&args, &changes.0).await,
        Runs::Drain(args) => drain::run(&args, &changes.0).await,
    }
}

/// The run that an id, or the beginning of one, stands for; none where there is none.
pub async fn find(id: &str, insight: &Insight) -> Result<Option<Run>> {
    let prefix: IdPrefix<RunId> = id.parse().map_err(|error: NoId| Error::Usage(error.to_string()))?;
    match insight.find_run(prefix).await? {
        Found::Nothing => Ok(None),
        Found::One(run) => Ok(Some(*run)),
        Found::Several(first, second) => Err(Error::Usage(format!(
            "{id} is the beginning of several runs, among them {first} and {second}; give more of it"
        ))),
    }
}
