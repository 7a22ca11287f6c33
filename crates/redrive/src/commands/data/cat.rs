//! `data cat`: the records themselves, byte for byte. A part's hash is checked before any of it is printed.

use futures_util::TryStreamExt as _;

use super::current::CurrentRuns;
use crate::cli::DataCat;
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &DataCat, runs: &CurrentRuns, context: &Context) -> Result<Exit> {
    let filter = runs.filter(&args.filter, context.global.quiet).await?;
    if filter.is_empty() && !args.all {
        let todo = "name a source, customer, query or date, or give --all";
        return Err(Error::Usage(format!("the filter is empty and would print every record there is; {todo}")));
    }
    let (mut pages, mut out, mut any) = (runs.runs().pages(&filter), output::listing::stdout(), false);
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            break;
        }
        any = true;
        for state in page {
            let run = runs.runs().current(state).await?;
            let mut chunks = runs.runs().raw.chunks(&run.manifest);
            while let Some(chunk) = chunks.try_next().await? {
                output::write(&mut out, &chunk)?;
            }
        }
    }
    output::flush(&mut out)?;
    if any { Ok(Exit::Done) } else { Err(runs.explain_absence(&filter).await) }
}
