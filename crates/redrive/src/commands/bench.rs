//! `redrive bench`: measures, and shows what was found.

use redrive_bench::{Bench, BenchCommon, Figures, extract, queue, state};
use redrive_store::StoreUrl;

use super::Context;
use crate::cli::Format;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(bench: &Bench, context: &Context) -> Result<Exit> {
    let progress = spinner(context.global.quiet);
    let on_phase = |name: &'static str| progress.set_message(name);
    let measured = match bench {
        Bench::Queue(args) => queue::run(args, &store(&args.common, context)?, &on_phase).await.map(Figures::Queue),
        Bench::State(args) => state::run(args, &store(&args.common, context)?, &on_phase).await.map(Figures::State),
        Bench::Extract(args) => extract::run(args, &on_phase).await.map(Figures::Extract),
    };
    progress.finish_and_clear();
    let figures = measured?;
    show(&figures, context.global.output)?;
    Ok(if figures.is_good() { Exit::Done } else { Exit::SomeFailed })
}

fn spinner(quiet: bool) -> indicatif::ProgressBar {
    let bar = if quiet { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new_spinner() };
    if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}

/// The database beside which to measure.
fn store(common: &BenchCommon, context: &Context) -> Result<StoreUrl> {
    match &common.store {
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
