//! Data on stdout, talk on stderr. All data goes through [`write`], which fails where it cannot be written: a script
//! must not take half of a listing for the whole.

pub mod listing;

use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use redrive_core::key::PartitionKey;
use redrive_core::text::one_line;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Format, Global};

/// Stdout cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {0}")]
pub struct Unwritten(io::Error);

/// Writes data to stdout, or to what buffers it.
pub fn write(out: &mut impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    out.write_all(bytes).map_err(|error| Unwritten(error).into())
}

pub fn flush(out: &mut impl Write) -> anyhow::Result<()> {
    out.flush().map_err(|error| Unwritten(error).into())
}

/// Whether it is only that whoever reads has enough, like `head`. That ends the program, and is no failure.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Unwritten>().is_some_and(|Unwritten(error)| error.kind() == ErrorKind::BrokenPipe)
}

/// For a command whose end says what came of its work: a reader who has gone away does not change that.
pub fn unless_closed(told: anyhow::Result<()>) -> anyhow::Result<()> {
    match told {
        Err(error) if is_closed(&error) => Ok(()),
        told => told,
    }
}

/// Writes a line of data.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout();
    write(&mut stdout, format!("{text}\n").as_bytes())?;
    flush(&mut stdout)
}

/// Writes a line of talk.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Says what went wrong, in one line.
pub fn complain(error: &anyhow::Error) {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text = one_line(&format!("{error:#}"));
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {text}");
}

/// A table as people like to read it: no frames, columns aligned.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = plain_table(rows);
    table.set_header(header.iter().copied());
    table.trim_fmt()
}

/// The rows alone, without frames; what came from a source is made printable.
fn plain_table(rows: Vec<Vec<String>>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>()));
    table
}

/// What JSON and CSV call a key's four values.
pub const KEY: [&str; 4] = ["source", "customer_id", "query_name", "logical_date"];

/// A key's four values, for a table's row.
pub fn key(key: &PartitionKey) -> Vec<String> {
    vec![key.source.to_string(), key.customer_id.to_string(), key.query_name.to_string(), key.logical_date.to_string()]
}

/// A value's text, or nothing.
pub fn text_or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Rows as a table for people, or as CSV, whose columns have the `names` that JSON has.
pub fn rows(header: &[&str], names: &[&str], rows: Vec<Vec<String>>, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Csv => {
            csv_header(names)?;
            rows.iter().try_for_each(|row| csv(row))
        }
        Format::Table | Format::Json | Format::Jsonl => line(&table(header, rows)),
    }
}

/// One object as CSV: a header of its fields, and a row.
pub fn record(names: &[&str], object: &impl Serialize) -> anyhow::Result<()> {
    csv_header(names)?;
    csv(&cells(names, &serde_json::to_value(object)?))
}

/// Fields of an object as cells. One that holds more than a value stays JSON.
pub fn cells(names: &[&str], object: &Value) -> Vec<String> {
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    names.iter().map(|name| cell(&object[*name])).collect()
}

pub fn csv_header(names: &[&str]) -> anyhow::Result<()> {
    line(&names.join(","))
}

/// Says that there is nothing: to people as the answer, beside a CSV of no rows as talk.
pub fn nothing(text: &str, names: &[&str], global: &Global) -> anyhow::Result<()> {
    unless_closed(match global.output {
        Format::Table => line(text),
        Format::Csv => {
            if !global.quiet {
                say(text);
            }
            csv_header(names)
        }
        Format::Json | Format::Jsonl => Ok(()),
    })
}

/// Writes a row of CSV.
pub fn csv(values: &[String]) -> anyhow::Result<()> {
    line(&csv_row(values))
}

/// A row of CSV: quoted where it must be.
pub fn csv_row(values: &[String]) -> String {
    let quoted = values.iter().map(|value| match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.clone(),
    });
    quoted.collect::<Vec<_>>().join(",")
}
