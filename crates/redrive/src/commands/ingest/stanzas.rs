//! `ingest stanzas`: what an upload holds, stanza by stanza, however much it is.

use redrive_control::Insight;
use redrive_control::shape::StanzaShape;
use redrive_control::uploads::{FilePages, StanzaPages};
use redrive_core::id::RunId;
use redrive_store::{FileRow, StanzaRow};

use super::find;
use crate::cli::Stanzas;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Part, Row};
use crate::output::terminal::Times;

static STANZAS: Layout = Layout {
    name: "stanzas",
    header: &[
        Column::text("file"),
        Column::number("line"),
        Column::new("layer").spared(1),
        Column::text("stanza"),
        Column::text("key"),
        Column::text("value"),
    ],
    columns: &["file", "source_path", "name", "line", "layer", "key", "value"],
    nothing: Some("no stanza found"),
};

impl Row for StanzaShape {
    /// A stanza, and below it its settings.
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let name = Cell::some(self.name.as_ref().map(|name| format!("[{name}]")));
        let (file, line, layer) = (Cell::new(&self.file), Cell::new(self.line.to_string()), Cell::new(&self.layer));
        let head = vec![file, line, layer, name, Cell::empty(), Cell::empty()];
        let setting = |(key, value): &(String, String)| {
            let mut line = vec![Cell::empty(); 4];
            line.extend([Cell::new(key), Cell::new(value)]);
            line
        };
        std::iter::once(head).chain(self.entries.iter().map(setting)).collect()
    }

    /// One row for each setting.
    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        let Self { file, source_path, name, line, layer, entries } = self;
        let name = name.clone().unwrap_or_default();
        let head = [file.clone(), source_path.clone(), name, line.to_string(), layer.clone()];
        let record = |key: &str, value: &str| [&head[..], &[key.to_owned(), value.to_owned()]].concat();
        if entries.is_empty() {
            return Ok(vec![record("", "")]);
        }
        Ok(entries.iter().map(|(key, value)| record(key, value)).collect())
    }
}

pub async fn run(args: &Stanzas, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let run = find::parsed(&args.run, &insight, context).await?;
    let mut listing = Listing::new(&STANZAS, &context.global);
    match &args.file {
        None => {
            let mut pages = StanzaPages::new(insight.view(), run.run_id, None, args.name.clone());
            while let Some(page) = some(pages.next().await?) {
                page.into_iter().try_for_each(|stanza| add(&mut listing, stanza))?;
            }
        }
        Some(asked) => {
            for file in files(&insight, run.run_id, asked).await? {
                let mut pages = StanzaPages::new(insight.view(), run.run_id, Some(file), args.name.clone());
                while let Some(page) = some(pages.next().await?) {
                    page.into_iter().try_for_each(|stanza| add(&mut listing, stanza))?;
                }
            }
        }
    }
    Ok(if listing.end()? == 0 { Exit::NothingFound } else { Exit::Done })
}

fn add<W: std::io::Write>(listing: &mut Listing<W>, stanza: StanzaRow) -> Result<()> {
    let part = Part { is_first: !stanza.is_continued, is_last: !stanza.continues() };
    let shape = StanzaShape::from(stanza);
    match part {
        Part { is_first: true, is_last: true } => listing.add(&shape),
        Part { .. } => listing.add_part(&shape, &shape.entries, part),
    }
}

fn some<T>(page: Vec<T>) -> Option<Vec<T>> {
    (!page.is_empty()).then_some(page)
}

/// The files that `--file` means.
async fn files(insight: &Insight, run_id: RunId, asked: &str) -> Result<Vec<FileRow>> {
    let mut pages = FilePages::new(insight.view(), run_id);
    let mut found = Vec::new();
    while let Some(page) = some(pages.next().await?) {
        found.extend(page.into_iter().filter(|file| is_meant(&file.path, asked)));
    }
    Ok(found)
}

/// Whether a path is the one that was asked for, or ends with it.
fn is_meant(path: &str, asked: &str) -> bool {
    path.strip_suffix(asked).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_meant_by_the_end_of_its_path() {
        assert!(
            is_meant("a/default/props.conf", "props.conf") && is_meant("a/default/props.conf", "default/props.conf")
        );
        assert!(is_meant("props.conf", "props.conf") && !is_meant("a/default/myprops.conf", "props.conf"));
    }
}
