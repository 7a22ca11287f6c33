//! `runs drain`: has an outside worker take on nothing more, or go on.

use crate::cli::Drain;
use crate::commands::state::change::StateChanges;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &Drain, changes: &StateChanges<'_>) -> Result<Exit> {
    let plane = changes.plane().await?;
    let (worker, drain) = (&args.worker, !args.resume);
    let audit = changes.audit(&crate::cli::ChangeArgs { reason: args.reason.clone(), ..Default::default() });
    if !plane.drain_worker(worker, drain, &audit).await? {
        return Err(Error::NothingFound(format!(
            "no outside worker calls itself {worker:?}; `redrive status` lists those that were seen lately"
        )));
    }
    if !changes.context.global.quiet {
        output::note(&match drain {
            true => format!("the server gives {worker} no more jobs; --resume lets it go on"),
            false => format!("{worker} may take on work again"),
        });
    }
    Ok(Exit::Done)
}
