//! `ingest effective`: what takes effect, each value with the file and line it came from.

use redrive_conf::{Context as Sight, Inherit};
use redrive_control::shape::EffectiveShape;
use redrive_control::uploads::{EffectiveOptions, conf_name};

use super::find;
use crate::cli;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

static STANZAS: Layout = Layout {
    name: "stanzas",
    header: &[
        Column::new("conf"),
        Column::text("stanza"),
        Column::text("key"),
        Column::text("value"),
        Column::text("from"),
    ],
    columns: &["conf", "name", "key", "value", "source_path", "line"],
    nothing: Some("no stanza takes effect"),
};

impl Row for EffectiveShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let name = Cell::new(format!("[{}]", self.name));
        let head = vec![Cell::new(&self.conf), name, Cell::empty(), Cell::empty(), Cell::empty()];
        let settings = self.entries.iter().map(|entry| {
            let from = Cell::new(format!("{}:{}", entry.source_path, entry.line));
            vec![Cell::empty(), Cell::empty(), Cell::new(&entry.key), Cell::new(&entry.value), from]
        });
        std::iter::once(head).chain(settings).collect()
    }

    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        let record = |key: &str, value: &str, path: &str, line: String| {
            vec![self.conf.clone(), self.name.clone(), key.to_owned(), value.to_owned(), path.to_owned(), line]
        };
        if self.entries.is_empty() {
            return Ok(vec![record("", "", "", String::new())]);
        }
        let entries = self.entries.iter();
        Ok(entries.map(|entry| record(&entry.key, &entry.value, &entry.source_path, entry.line.to_string())).collect())
    }
}

pub async fn run(args: &cli::Effective, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let run = find::parsed(&args.run, &insight, context).await?;
    let sight = match &args.app {
        None => Sight::Global,
        Some(app) => Sight::App { app: app.clone(), user: args.user.clone() },
    };
    let options = EffectiveOptions { context: sight, conf: args.conf.as_deref().map(conf_name) };
    let effective = insight.effective(run.run_id, &options).await?;
    let inherit = if args.no_inherit { Inherit::Nothing } else { Inherit::Default };
    let mut listing = Listing::new(&STANZAS, &context.global);
    for conf in effective.confs() {
        for stanza in effective.stanzas(conf, inherit) {
            listing.add(&EffectiveShape::new(conf, &stanza))?;
        }
    }
    Ok(if listing.end()? == 0 { Exit::NothingFound } else { Exit::Done })
}
