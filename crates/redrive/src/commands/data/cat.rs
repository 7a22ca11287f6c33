//! `data cat`: the records themselves, byte for byte. A part's hash is checked before any of it is printed.

use futures_util::TryStreamExt as _;

use super::absence;
use super::pipe::Pipe;
use super::shelf::Shelf;
use crate::cli::DataCat;
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;

pub async fn run(args: &DataCat, shelf: &Shelf, context: &Context) -> Result<Exit> {
    let filter = shelf.filter(&args.filter, context.global.quiet)?;
    if filter.is_empty() && !args.all {
        let todo = "name a source, customer, query or date, or give --all";
        return Err(Error::Usage(format!("the filter is empty and would print every record there is; {todo}")));
    }
    let (mut matches, mut pipe, mut any) = (shelf.matches(&filter), Pipe::new(), false);
    loop {
        let page = matches.next().await?;
        if page.is_empty() {
            break;
        }
        any = true;
        for state in page {
            let item = shelf.item(state).await?;
            let mut chunks = shelf.raw.chunks(&item.manifest);
            while let Some(chunk) = chunks.try_next().await? {
                pipe.write(&chunk)?;
            }
        }
    }
    pipe.end()?;
    if any { Ok(Exit::Done) } else { Err(absence::explain(&filter, shelf).await) }
}
