//! `redrive state …`: what operators hold in their hands.

mod audit;
mod change;
mod confirm;
mod cooldown;
mod errors;
mod explain;
pub mod filter;
mod inspect;
mod missing;
mod show;

use super::{Context, Intent, person};
use crate::cli::State;
use crate::error::Result;
use crate::exit::Exit;

pub async fn run(command: State, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let intent = if command.only_looks() { Intent::Look } else { Intent::Change };
    let control = context.control(&config, person(), intent).await?;
    let plane = &control.plane;
    let desk = change::Desk { plane, config: &config, context };
    match command {
        State::Inspect(args) => inspect::run(&args, plane, context).await,
        State::Explain(args) => explain::run(&args, plane, context).await,
        State::Terminal(args) => inspect::terminal(&args, plane, context).await,
        State::Retry(args) => desk.retry(&args).await,
        State::Reprocess(args) => desk.operate(redrive_control::Verb::Reprocess, &args).await,
        State::MarkTerminal(args) => desk.operate(redrive_control::Verb::MarkTerminal, &args).await,
        State::ClearTerminal(args) => desk.operate(redrive_control::Verb::ClearTerminal, &args).await,
        State::Pause(args) => desk.operate(redrive_control::Verb::Pause, &args).await,
        State::Resume(args) => desk.operate(redrive_control::Verb::Resume, &args).await,
        State::Backfill(crate::cli::Backfill::Enqueue(args)) => desk.backfill(&args).await,
        State::Apply(args) => desk.apply(&args).await,
        State::Undo(args) => desk.undo(&args).await,
        State::Cooldown(command) => cooldown::run(&command, plane, context).await,
        State::Audit(command) => audit::run(&command, plane, context).await,
    }
}
