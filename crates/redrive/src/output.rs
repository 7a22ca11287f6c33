//! Data on stdout, talk on stderr. All data goes through [`write`], which fails where it cannot be written: a script
//! must not take half of a listing for the whole.

pub mod columns;
pub mod listing;
pub mod progress;
pub mod terminal;
pub mod tone;

use std::io::{self, Write};

use redrive_core::key::PartitionKey;
use redrive_core::text::{escape_json, one_line, plain};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Format, Global};
use crate::error::{Error, Result};
use crate::remedy;
use columns::{Cell, Column, Columns};

/// Stdout cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {0}")]
pub struct StdoutError(pub io::Error);

/// Writes data to stdout, or to what buffers it.
pub fn write(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(|error| StdoutError(error).into())
}

pub fn flush(out: &mut impl Write) -> Result<()> {
    out.flush().map_err(|error| StdoutError(error).into())
}

/// Ignores a closed stdout. The exit code of a changing command reports the change, not the printing.
pub fn ignore_broken_pipe(printed: Result<()>) -> Result<()> {
    match printed {
        Err(error) if error.is_broken_pipe() => Ok(()),
        printed => printed,
    }
}

/// Writes a line of data.
pub fn line(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout();
    write(&mut stdout, format!("{text}\n").as_bytes())?;
    flush(&mut stdout)
}

/// Writes a line for people to stderr.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub fn json(value: &impl Serialize) -> Result<()> {
    line(&json_text(value)?)
}

/// JSON in which nothing steers a terminal or turns the text beside it; its values are as they were.
pub fn json_text(value: &impl Serialize) -> Result<String> {
    Ok(escape_json(&serde_json::to_string(value)?).into_owned())
}

/// Writes an error to stderr, in one line.
pub fn print_error(error: &Error) {
    let red = tone::BAD.bold();
    let text = one_line(&remedy::in_words(error));
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {text}");
}

/// Texts below one another, each in one line.
pub fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| one_line(text)).collect::<Vec<_>>().join("\n")
}

/// Names and their values, below one another. Nothing of a value is cut.
pub fn pairs(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = Columns::new(&[Column::new(""), Column::new("")]);
    rows.into_iter().for_each(|(name, value)| table.add(vec![Cell::new(name), Cell::new(value)]));
    table.lines(None).split_off(1).join("\n")
}

/// What JSON and CSV call a key's four values.
pub const KEY: [&str; 4] = ["source", "customer_id", "query_name", "logical_date"];

/// A key's four values, for a row of CSV.
pub fn key(key: &PartitionKey) -> Vec<String> {
    vec![key.source.to_string(), key.customer_id.to_string(), key.query_name.to_string(), key.logical_date.to_string()]
}

/// The same, for a table.
pub fn key_cells(key: &PartitionKey) -> Vec<Cell> {
    self::key(key).into_iter().map(Cell::new).collect()
}

/// Prints one thing: as JSON, as CSV with a header of its fields and a row, or for people as a text.
pub fn one(names: &[&str], value: &impl Serialize, global: &Global, text: impl FnOnce() -> String) -> Result<()> {
    match global.output {
        Format::Json | Format::Jsonl => json(value),
        Format::Csv => {
            csv_header(names)?;
            csv(&cells(names, &serde_json::to_value(value)?))
        }
        Format::Table => line(&text()),
    }
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

pub fn csv_header(names: &[&str]) -> Result<()> {
    line(&names.join(","))
}

/// Says that there is nothing: to people as the answer, beside a CSV of no rows as talk.
pub fn nothing(text: &str, names: &[&str], global: &Global) -> Result<()> {
    ignore_broken_pipe(match global.output {
        Format::Table => line(text),
        Format::Csv => {
            if !global.quiet {
                note(text);
            }
            csv_header(names)
        }
        Format::Json | Format::Jsonl => Ok(()),
    })
}

/// Writes a row of CSV.
pub fn csv(values: &[String]) -> Result<()> {
    line(&csv_row(values))
}

/// A row of CSV: quoted where it must be, and harmless to a spreadsheet.
pub fn csv_row(values: &[String]) -> String {
    let quoted =
        values.iter().map(|value| harmless(&plain(value))).map(|value| match value.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", value.replace('"', "\"\"")),
            false => value,
        });
    quoted.collect::<Vec<_>>().join(",")
}

/// A spreadsheet runs a cell that begins with one of these as a formula. An apostrophe before it makes it a text, and a
/// number stays a number.
fn harmless(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠']);
    if is_formula && !is_number(cell) { format!("'{cell}") } else { cell.to_owned() }
}

/// Digits with a sign, a fraction or an exponent, and nothing else: neither a formula nor a name such as `inf`.
fn is_number(cell: &str) -> bool {
    cell.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
        && cell.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_no_formula_and_a_number_stays_one() {
        for (cell, written) in [
            ("=1+1", "'=1+1"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+49 30 1234", "'+49 30 1234"),
            ("-2+3", "'-2+3"),
            ("-", "'-"),
            ("-inf", "'-inf"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'=1"),
            ("\u{202e}=1", "'=1"),
            ("＝1+1", "'＝1+1"),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
            ("-5", "-5"),
            ("+5", "+5"),
            ("-1.5e-3", "-1.5e-3"),
            ("-.5", "-.5"),
            ("a=b", "a=b"),
            ("2026-01-01", "2026-01-01"),
            ("", ""),
        ] {
            assert_eq!(csv_row(&[cell.to_owned()]), written, "{cell:?}");
        }
    }
}
