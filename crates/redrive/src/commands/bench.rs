//! `redrive bench`: measures, and shows what was found.

use redrive_bench::{Bench, Figures, conf, extract, partitions, queue, state};
use redrive_store::StoreUrl;

use super::Context;
use crate::cli::Format;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::progress::{Progress, Style};

pub async fn run(bench: &Bench, context: &Context) -> Result<Exit> {
    // What it has made is taken away again.
    context.stop.in_order();
    let progress = Progress::start(Style::Phases, context.global.quiet);
    let on_phase = |name: &'static str| progress.message(name.to_owned());
    let measured = match bench {
        Bench::Queue(args) => {
            queue::run(args, &store(args.common.store.as_deref(), context)?, &on_phase).await.map(Figures::Queue)
        }
        Bench::State(args) => {
            state::run(args, &store(args.common.store.as_deref(), context)?, &on_phase).await.map(Figures::State)
        }
        Bench::Extract(args) => match &args.partitions {
            Some(count) => {
                let store = store(args.store.as_deref(), context)?;
                partitions::run(args, *count, &store, &on_phase).await.map(Figures::Partitions)
            }
            None => extract::run(args, &on_phase).await.map(Figures::Extract),
        },
        Bench::Conf(args) => conf::run(args, &on_phase).await.map(Figures::Conf),
    };
    drop(progress);
    let figures = measured?;
    show(&figures, context.global.output)?;
    Ok(if figures.is_good() { Exit::Done } else { Exit::SomeFailed })
}

/// The database beside which to measure.
fn store(url: Option<&str>, context: &Context) -> Result<StoreUrl> {
    match url {
        Some(url) => StoreUrl::parse(url).map_err(|error| Error::Usage(format!("--store: {error}"))),
        None => Ok(context.config()?.store),
    }
}

fn show(figures: &Figures, format: Format) -> Result<()> {
    match format {
        Format::Json | Format::Jsonl => return output::json(figures),
        Format::Table | Format::Csv => {}
    }
    let summary = figures.summary();
    output::line(&summary.heading)?;
    output::line(&output::table(&summary.columns, summary.rows.into_iter().map(Vec::from).collect()))?;
    summary.notes.iter().try_for_each(|note| output::line(note))
}
