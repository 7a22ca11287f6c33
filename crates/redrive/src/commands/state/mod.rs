//! `redrive state …`: what operators hold in their hands.

mod audit;
pub(super) mod change;
pub(super) mod confirm;
mod errors;
mod explain;
pub mod filter;
mod groups;
pub(super) mod halted;
mod hold;
mod inspect;
mod missing;
mod operation;
mod show;
pub(super) mod words;

use redrive_control::Verb;
use redrive_core::hold::HoldKind;

use super::Context;
use super::opening::is_absent;
use crate::cli::{Audit, Backfill, Cooldown, Hold, State};
use crate::error::{Error, Result};
use crate::exit::Exit;
pub use groups::GROUPS;
pub use hold::HOLDS;

const COOLDOWN: Option<HoldKind> = Some(HoldKind::Cooldown);

pub async fn run(command: State, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = || context.insight(&config);
    let changes = change::StateChanges { config: &config, context };
    match command {
        State::Inspect(args) => inspect::run(&args, &insight().await?, context).await,
        State::Groups(args) => groups::run(&args, &insight().await?, context).await,
        State::Explain(args) => explain::run(&args, &insight().await?, context).await,
        State::Terminal(args) => inspect::terminal(&args, &insight().await?, context).await,
        State::Audit(Audit::Verify { .. }) if is_absent(&config.store) => Err(Error::NothingFound(format!(
            "there is no audit trail to check: {} does not exist",
            config.store.place()
        ))),
        State::Audit(command) => audit::run(&command, &insight().await?, context).await,
        State::Hold(Hold::List) => hold::list(None, &insight().await?, context).await,
        State::Hold(Hold::Set(args)) if args.change.dry_run => hold::foresee_set(&args, &insight().await?, context),
        State::Hold(Hold::Set(args)) => hold::set(&args, &changes.plane().await?, context).await,
        State::Hold(Hold::Lift(args)) => changes.lift(&args, None).await,
        State::Cooldown(Cooldown::List) => hold::list(COOLDOWN, &insight().await?, context).await,
        State::Cooldown(Cooldown::Lift(args)) => changes.lift(&args, COOLDOWN).await,
        State::Retry(args) => changes.retry(&args).await,
        State::Reprocess(args) => {
            let verb = if args.withdraw { Verb::Withdraw } else { Verb::Reprocess };
            changes.operate(verb, &args.changed).await
        }
        State::MarkTerminal(args) => changes.operate(Verb::MarkTerminal, &args).await,
        State::ClearTerminal(args) => changes.operate(Verb::ClearTerminal, &args).await,
        State::Pause(args) => changes.operate(Verb::Pause, &args).await,
        State::Resume(args) => changes.operate(Verb::Resume, &args).await,
        State::Backfill(Backfill::Enqueue(args)) => changes.backfill(&args).await,
        State::Apply(args) => changes.apply(&args).await,
        State::Undo(args) => changes.undo(&args).await,
    }
}
