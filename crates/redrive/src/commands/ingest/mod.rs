//! `redrive ingest …`: archives of configuration files, uploaded and looked into.

mod body;
mod diff;
mod effective;
mod find;
mod folder;
mod lint;
mod list;
mod search;
mod show;
mod stanzas;
pub mod upload;

use super::Context;
use crate::cli::Ingest;
use crate::error::Result;
use crate::exit::Exit;

pub async fn run(command: &Ingest, context: &Context) -> Result<Exit> {
    match command {
        Ingest::Upload(args) => upload::run(args, context).await,
        Ingest::Lint(args) => lint::run(args, context).await,
        Ingest::List(args) => list::run(args, context).await,
        Ingest::Show(args) => show::run(args, context).await,
        Ingest::Stanzas(args) => stanzas::run(args, context).await,
        Ingest::Effective(args) => effective::run(args, context).await,
        Ingest::Diff(args) => diff::run(args, context).await,
        Ingest::Search(args) => search::run(args, context).await,
    }
}
