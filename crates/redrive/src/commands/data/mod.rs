//! `redrive data …`: what consumers read. Only the current run of a success is shown, and nothing is ever changed: a
//! consumer cannot cause a retry, so everything is opened to be read.

mod absence;
mod cat;
mod ls;
mod pipe;
pub mod promise;
mod shelf;

use super::Context;
use crate::cli::Data;
use crate::error::Result;
use crate::exit::Exit;
use shelf::Shelf;

pub async fn run(command: &Data, context: &Context) -> Result<Exit> {
    let shelf = Shelf::open(context).await?;
    match command {
        Data::Ls(args) => ls::run(args, &shelf, context).await,
        Data::Cat(args) => cat::run(args, &shelf, context).await,
    }
}
