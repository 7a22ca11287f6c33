//! `ingest diff`: how two uploads differ. People see it as a coloured patch, scripts as one change a row.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use redrive_control::Insight;
use redrive_control::shape::{DifferenceKind, DifferenceShape};
use redrive_core::run::Run;
use redrive_core::text::one_line;

use super::find;
use crate::cli::{Diff, Format};
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::columns::Cell;
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::output::{self, StdoutError};

static CHANGES: Layout = Layout {
    name: "changes",
    header: &[],
    columns: &["source_path", "change", "stanza", "key", "old", "new", "old_line", "new_line"],
    nothing: Some("no differences"),
};

impl Row for DifferenceShape {
    /// People get a patch instead.
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![]
    }
}

pub async fn run(args: &Diff, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let old = find::parsed(&args.old, &insight, context).await?;
    let new = find::parsed(&args.new, &insight, context).await?;
    match context.global.output {
        Format::Table => print_patch(&insight, &old, &new).await?,
        Format::Json | Format::Jsonl | Format::Csv => {
            let mut listing = Listing::new(&CHANGES, &context.global);
            insight.compare(old.run_id, new.run_id, |change| listing.add(&change)).await?;
            listing.end()?;
        }
    }
    Ok(Exit::Done)
}

async fn print_patch(insight: &Insight, old: &Run, new: &Run) -> Result<()> {
    let mut patch = Patch { out: anstream::AutoStream::auto(std::io::stdout()), path: None, stanza: None };
    insight.compare(old.run_id, new.run_id, |change| patch.add(&change)).await?;
    if patch.path.is_none() {
        patch.line(Style::new(), "no differences")?;
    }
    output::flush(&mut patch.out)
}

/// A patch on its way to stdout.
struct Patch {
    out: anstream::AutoStream<std::io::Stdout>,
    path: Option<String>,
    stanza: Option<Option<String>>,
}

impl Patch {
    fn add(&mut self, change: &DifferenceShape) -> Result<()> {
        if self.path.as_ref() != Some(&change.source_path) {
            self.line(Style::new().bold(), &one_line(&change.source_path))?;
            (self.path, self.stanza) = (Some(change.source_path.clone()), None);
        }
        let (red, green) = (colour(AnsiColor::Red), colour(AnsiColor::Green));
        let name = one_line(change.stanza.as_deref().unwrap_or_default());
        let head = if change.stanza.is_some() { format!("[{name}]") } else { "(before the first header)".to_owned() };
        match change.change {
            DifferenceKind::StanzaAdded => self.line(green, &format!("+ {head}"))?,
            DifferenceKind::StanzaRemoved => self.line(red, &format!("- {head}"))?,
            DifferenceKind::SettingAdded | DifferenceKind::SettingRemoved | DifferenceKind::SettingChanged => {
                if self.stanza.as_ref() != Some(&change.stanza) {
                    self.line(colour(AnsiColor::Cyan), &format!("  {head}"))?;
                }
                let key = one_line(change.key.as_deref().unwrap_or_default());
                if let Some(value) = &change.old {
                    self.line(red, &format!("-   {key} = {}", one_line(value)))?;
                }
                if let Some(value) = &change.new {
                    self.line(green, &format!("+   {key} = {}", one_line(value)))?;
                }
            }
        }
        self.stanza = Some(change.stanza.clone());
        Ok(())
    }

    fn line(&mut self, style: Style, text: &str) -> Result<()> {
        writeln!(self.out, "{style}{text}{style:#}").map_err(|error| Error::from(StdoutError(error)))
    }
}

fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}
