//! `redrive bench`: measures, and shows what was found.

use redrive_bench::{Bench, Figures, conf, extract, partitions, queue, state};
use redrive_store::StoreUrl;

use super::Context;
use crate::cli::Global;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column, Columns};
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
        Bench::Conf(args) => {
            conf::run(args, &store(args.store.as_deref(), context)?, &on_phase).await.map(Figures::Conf)
        }
    };
    drop(progress);
    let figures = measured?;
    show(&figures, &context.global)?;
    Ok(if figures.is_good() { Exit::Done } else { Exit::SomeFailed })
}

/// The database beside which to measure.
fn store(url: Option<&str>, context: &Context) -> Result<StoreUrl> {
    match url {
        Some(url) => StoreUrl::parse(url).map_err(|error| Error::Usage(format!("--store: {error}"))),
        None => Ok(context.config()?.store),
    }
}

fn show(figures: &Figures, global: &Global) -> Result<()> {
    let value = serde_json::to_value(figures)?;
    let names: Vec<&str> = value.as_object().into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect();
    output::one(&names, figures, global, || {
        let summary = figures.summary();
        let [what, figures @ ..] = summary.columns;
        let header: Vec<Column> = [Column::new(what)].into_iter().chain(figures.map(Column::number)).collect();
        let mut table = Columns::new(&header);
        summary.rows.iter().for_each(|row| table.add(row.iter().map(Cell::new).collect()));
        [vec![summary.heading], table.lines(None), summary.notes].concat().join("\n")
    })
}
