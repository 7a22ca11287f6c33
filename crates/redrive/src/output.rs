//! Data on stdout, talk on stderr.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use redrive_core::key::PartitionKey;
use serde::Serialize;

use crate::cli::Format;

/// Writes a line of data. A reader that has gone away is no error.
pub fn line(text: &str) {
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// Writes a line of talk.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?);
    Ok(())
}

/// Says what went wrong, in one line.
pub fn complain(error: &anyhow::Error) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text = format!("{error:#}").replace('\n', " ");
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {text}");
}

/// A text that a terminal shows as it is: what came from a source must not steer the operator's screen.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A table as people like to read it: no frames, columns aligned.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.iter().copied());
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>()));
    table.trim_fmt()
}

/// A key's four values, for a table's row.
pub fn key(key: &PartitionKey) -> Vec<String> {
    vec![key.source.to_string(), key.customer_id.to_string(), key.query_name.to_string(), key.logical_date.to_string()]
}

/// Rows as a table for people, or as CSV.
pub fn rows(header: &[&str], rows: Vec<Vec<String>>, format: Format) {
    match format {
        Format::Csv => {
            csv(&header.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
            rows.iter().for_each(|row| csv(row));
        }
        Format::Table | Format::Json | Format::Jsonl => line(&table(header, rows)),
    }
}

/// Writes a row of CSV.
pub fn csv(values: &[String]) {
    line(&csv_row(values));
}

/// A row of CSV: quoted where it must be.
pub fn csv_row(values: &[String]) -> String {
    let quoted = values.iter().map(|value| match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.clone(),
    });
    quoted.collect::<Vec<_>>().join(",")
}
