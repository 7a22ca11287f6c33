//! `redrive data …`: what consumers read. Only the current run of a success is shown, unless an attempt is named, and nothing
//! is ever changed: a consumer cannot cause a retry, so everything is opened to be read.

mod attempt;
mod cat;
mod current;
mod ls;

use super::Context;
use crate::cli::Data;
use crate::error::Result;
use crate::exit::Exit;
use current::CurrentRuns;
pub use redrive_store::manifest_contradiction;

pub async fn run(command: &Data, context: &Context) -> Result<Exit> {
    let runs = CurrentRuns::open(context).await?;
    match command {
        Data::Ls(args) => ls::run(args, &runs, context).await,
        Data::Cat(args) => match &args.run {
            Some(id) => attempt::run(id, args, &runs, context).await,
            None => cat::run(args, &runs, context).await,
        },
    }
}
