//! The one way in which rows are printed, as a table, JSON, JSON lines or CSV. Rows are written as they come, so that memory
//! stays the same however many there are.

use std::io::{self, BufWriter, Stdout, Write};

use redrive_core::time::Timestamp;
use serde::Serialize;

use super::columns::{Arrangement, Cell, Column, Columns};
use super::terminal::{Screen, Times};
use super::{cells, csv_row, flush, ignore_broken_pipe, json_text, note, write};
use crate::cli::{Format, Global};
use crate::error::Result;

const BUFFER: usize = 256 << 10;
/// How many rows of a table are laid out together. The columns keep the widths of the first of these pages.
const PAGE: usize = 1000;

/// Stdout for much data. Call [`flush`] in the end: an error while dropping goes unnoticed.
pub fn stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(BUFFER, io::stdout())
}

/// What a listing is called, and its columns.
#[derive(Debug)]
pub struct Layout {
    /// What JSON calls the list.
    pub name: &'static str,
    /// The table's columns, for people.
    pub header: &'static [Column],
    /// CSV's columns, by the names that JSON has.
    pub columns: &'static [&'static str],
    /// Printed where there are no rows; none for a command that explains it by itself.
    pub nothing: Option<&'static str>,
}

/// One entry of a listing. JSON has it as it serializes.
pub trait Row: Serialize {
    /// The lines that a table shows of it.
    fn lines(&self, times: Times) -> Vec<Vec<Cell>>;

    /// Its rows of CSV, one unless it says otherwise.
    fn records(&self, columns: &[&str]) -> Result<Vec<Vec<String>>> {
        Ok(vec![cells(columns, &serde_json::to_value(self)?)])
    }
}

/// Which part of a long row comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub is_first: bool,
    pub is_last: bool,
}

/// A listing on its way to stdout. It is complete only after [`Listing::end`].
#[derive(Debug)]
pub struct Listing<W: Write> {
    out: W,
    layout: &'static Layout,
    format: Format,
    quiet: bool,
    /// What JSON has before the first row.
    opening: String,
    count: u64,
    page: Columns,
    /// Where the columns of the first page stand.
    arrangement: Option<Arrangement>,
    screen: Screen,
}

impl Listing<BufWriter<Stdout>> {
    pub fn new(layout: &'static Layout, global: &Global) -> Self {
        Self { screen: global.screen, ..Self::to(stdout(), layout, global.output, global.quiet) }
    }

    /// A listing inside an object: JSON has the object's own fields first. Lines of JSON could not say them, so that format is one
    /// line with everything.
    pub fn inside(object: &impl Serialize, layout: &'static Layout, global: &Global) -> Result<Self> {
        let format = match global.output {
            Format::Jsonl => Format::Json,
            format @ (Format::Json | Format::Csv | Format::Table) => format,
        };
        let mut listing = Self::to(stdout(), layout, format, global.quiet);
        listing.opening = opening(&json_text(object)?, layout.name);
        listing.screen = global.screen;
        Ok(listing)
    }

    /// Prints rows that are all there already.
    pub fn print(layout: &'static Layout, global: &Global, rows: &[impl Row]) -> Result<()> {
        Self::new(layout, global).print_all(rows)
    }

    /// The same, with times as seen from this moment.
    pub fn print_as_of(layout: &'static Layout, global: &Global, rows: &[impl Row], now: Timestamp) -> Result<()> {
        Self::new(layout, global).seen_from(now).print_all(rows)
    }

    fn print_all(mut self, rows: &[impl Row]) -> Result<()> {
        rows.iter().try_for_each(|row| self.add(row))?;
        self.end().map(drop)
    }
}

impl<W: Write> Listing<W> {
    fn to(out: W, layout: &'static Layout, format: Format, quiet: bool) -> Self {
        let opening = opening("{}", layout.name);
        let page = Columns::new(layout.header);
        Self { out, layout, format, quiet, opening, count: 0, page, arrangement: None, screen: Screen::default() }
    }

    /// Tells times as seen from this moment, by the clock that they were written by.
    pub fn seen_from(mut self, now: Timestamp) -> Self {
        self.screen.times = self.screen.times.as_of(now);
        self
    }

    /// How it tells times.
    pub fn times(&self) -> Times {
        self.screen.times
    }

    pub fn add(&mut self, row: &impl Row) -> Result<()> {
        let first = self.count == 0;
        self.count += 1;
        match self.format {
            Format::Json => {
                let before = if first { self.opening.as_str() } else { "," };
                write(&mut self.out, before.as_bytes())?;
                write(&mut self.out, json_text(row)?.as_bytes())
            }
            Format::Jsonl => {
                let text = json_text(row)?;
                self.line(&text)
            }
            Format::Csv => {
                if first {
                    self.line(&self.layout.columns.join(","))?;
                }
                let records = row.records(self.layout.columns)?;
                records.iter().try_for_each(|record| self.line(&csv_row(record)))
            }
            Format::Table => self.add_lines(row.lines(self.screen.times)),
        }
    }

    /// Adds a part of a row that is too long to be in memory at once. The row's last field is a list, and `list` what this part has
    /// of it. A table shows the first line of the first part only.
    pub fn add_part(&mut self, row: &impl Row, list: &impl Serialize, part: Part) -> Result<()> {
        match self.format {
            Format::Json | Format::Jsonl => {
                let text = match part.is_first {
                    true => {
                        let before = match (self.format, self.count) {
                            (Format::Jsonl, _) => "",
                            (Format::Json | Format::Csv | Format::Table, 0) => self.opening.as_str(),
                            (Format::Json | Format::Csv | Format::Table, _) => ",",
                        };
                        write(&mut self.out, before.as_bytes())?;
                        self.count += 1;
                        let text = serde_json::to_string(row)?;
                        text.strip_suffix("]}").unwrap_or(&text).to_owned()
                    }
                    false => {
                        let text = serde_json::to_string(list)?;
                        let items = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_default();
                        if items.is_empty() { String::new() } else { format!(",{items}") }
                    }
                };
                write(&mut self.out, text.as_bytes())?;
                match (part.is_last, self.format) {
                    (true, Format::Jsonl) => self.line("]}"),
                    (true, Format::Json | Format::Csv | Format::Table) => write(&mut self.out, b"]}"),
                    (false, _) => Ok(()),
                }
            }
            Format::Csv => {
                self.add(row)?;
                self.count -= u64::from(!part.is_first);
                Ok(())
            }
            Format::Table => {
                self.count += u64::from(part.is_first);
                self.add_lines(row.lines(self.screen.times).into_iter().skip(usize::from(!part.is_first)))
            }
        }
    }

    /// Writes what is left; gives the number of rows. Where there are none, the exit code says so, and a closed stdout does not
    /// change it.
    pub fn end(mut self) -> Result<u64> {
        let written = self.finish();
        if self.count == 0 {
            ignore_broken_pipe(written)?
        } else {
            written?
        }
        Ok(self.count)
    }

    fn finish(&mut self) -> Result<()> {
        match (self.format, self.count) {
            (Format::Json, 0) => self.line(&format!("{}]}}", self.opening))?,
            (Format::Json, _) => self.line("]}")?,
            (Format::Csv, 0) => {
                if let Some(text) = self.layout.nothing.filter(|_| !self.quiet) {
                    note(text);
                }
                self.line(&self.layout.columns.join(","))?;
            }
            (Format::Table, 0) => self.layout.nothing.map_or(Ok(()), |text| self.line(text))?,
            (Format::Table, _) => self.print_page(true)?,
            (Format::Jsonl | Format::Csv, _) => {}
        }
        flush(&mut self.out)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        write(&mut self.out, text.as_bytes())?;
        write(&mut self.out, b"\n")
    }

    fn add_lines(&mut self, lines: impl IntoIterator<Item = Vec<Cell>>) -> Result<()> {
        lines.into_iter().for_each(|line| self.page.add(line));
        if self.page.len() < PAGE { Ok(()) } else { self.print_page(false) }
    }

    fn print_page(&mut self, is_last: bool) -> Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let page = std::mem::replace(&mut self.page, Columns::new(self.layout.header));
        let mut lines = Vec::new();
        let arrangement = match self.arrangement.take() {
            None => {
                // A page to come may fill what is empty in this one, and a file has the same columns whatever is in them.
                let without_empty = is_last && self.screen.width.is_some();
                let arrangement = page.arrange(self.screen.width, without_empty);
                lines.push(page.header(&arrangement));
                arrangement
            }
            Some(mut arrangement) => {
                arrangement.widen(&page);
                arrangement
            }
        };
        lines.extend(page.body(&arrangement));
        self.arrangement = Some(arrangement);
        for line in lines {
            match self.screen.has_colours {
                true => self.line(&line)?,
                false => self.line(&anstream::adapter::strip_str(&line).to_string())?,
            }
        }
        flush(&mut self.out)
    }
}

/// An object up to the first row of the list that it ends with.
fn opening(object: &str, name: &str) -> String {
    let fields = object.strip_suffix('}').unwrap_or(object);
    let comma = if fields.ends_with('{') { "" } else { "," };
    format!("{fields}{comma}\"{name}\":[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Person {
        name: String,
        born: Option<u32>,
    }

    impl Row for Person {
        fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
            vec![vec![Cell::new(&self.name), Cell::some(self.born)]]
        }
    }

    static PEOPLE: Layout = Layout {
        name: "people",
        header: &[Column::text("who"), Column::number("when")],
        columns: &["name", "born"],
        nothing: Some("nobody"),
    };

    fn listed(format: Format, rows: &[Person]) -> String {
        let mut out = Vec::new();
        let mut listing = Listing::to(&mut out, &PEOPLE, format, true);
        rows.iter().for_each(|row| listing.add(row).unwrap());
        assert_eq!(listing.end().unwrap(), u64::try_from(rows.len()).unwrap());
        String::from_utf8(out).unwrap()
    }

    fn person(name: &str, born: Option<u32>) -> Person {
        Person { name: name.to_owned(), born }
    }

    #[test]
    fn rows_are_written_in_each_format() {
        let rows = [person("Ada", Some(1815)), person("a, \"b\"", None)];
        for (format, text) in [
            (
                Format::Json,
                "{\"people\":[{\"name\":\"Ada\",\"born\":1815},{\"name\":\"a, \\\"b\\\"\",\"born\":null}]}\n",
            ),
            (Format::Jsonl, "{\"name\":\"Ada\",\"born\":1815}\n{\"name\":\"a, \\\"b\\\"\",\"born\":null}\n"),
            (Format::Csv, "name,born\nAda,1815\n\"a, \"\"b\"\"\",\n"),
            (Format::Table, " who     when\n Ada     1815\n a, \"b\"\n"),
        ] {
            assert_eq!(listed(format, &rows), text, "{format:?}");
        }
    }

    #[derive(Serialize)]
    struct Long {
        name: &'static str,
        items: Vec<u32>,
    }

    impl Row for Long {
        fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
            let head = vec![Cell::new(self.name), Cell::empty()];
            let item = |item: &u32| vec![Cell::empty(), Cell::new(item.to_string())];
            std::iter::once(head).chain(self.items.iter().map(item)).collect()
        }

        fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
            Ok(self.items.iter().map(|item| vec![self.name.to_owned(), item.to_string()]).collect())
        }
    }

    static LONG: Layout = Layout {
        name: "long",
        header: &[Column::new("name"), Column::number("item")],
        columns: &["name", "item"],
        nothing: Some("nothing"),
    };

    #[test]
    fn a_row_in_parts_is_one_row() {
        let rows = [("a", vec![1, 2]), ("b", vec![3]), ("c", vec![])];
        for format in [Format::Json, Format::Jsonl, Format::Csv, Format::Table] {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            let mut listing = Listing::to(&mut whole, &LONG, format, true);
            for (name, items) in &rows {
                listing.add(&Long { name, items: items.clone() }).unwrap();
            }
            assert_eq!(listing.end().unwrap(), 3);
            let mut listing = Listing::to(&mut parts, &LONG, format, true);
            for (name, items) in &rows {
                for (nth, item) in items.iter().enumerate() {
                    let row = Long { name, items: vec![*item] };
                    let part = Part { is_first: nth == 0, is_last: nth + 1 == items.len() };
                    listing.add_part(&row, &row.items, part).unwrap();
                }
                if items.is_empty() {
                    listing.add(&Long { name, items: vec![] }).unwrap();
                }
            }
            assert_eq!(listing.end().unwrap(), 3, "{format:?}");
            assert_eq!(String::from_utf8(parts).unwrap(), String::from_utf8(whole).unwrap(), "{format:?}");
        }
    }

    #[test]
    fn no_rows_are_an_empty_listing() {
        for (format, text) in [
            (Format::Json, "{\"people\":[]}\n"),
            (Format::Jsonl, ""),
            (Format::Csv, "name,born\n"),
            (Format::Table, "nobody\n"),
        ] {
            assert_eq!(listed(format, &[]), text, "{format:?}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut out = Vec::new();
        let screen = Screen { width: Some(23), ..Screen::default() };
        let mut listing = Listing { screen, ..Listing::to(&mut out, &PEOPLE, Format::Table, true) };
        listing.add(&person("Augusta Ada, Countess of Lovelace", Some(1815))).unwrap();
        listing.end().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " who               when\n Augusta Ada, Co…  1815\n");
    }

    #[test]
    fn a_long_table_has_one_header_and_columns_that_stay() {
        let rows: Vec<Person> = (0..2 * PAGE + 1).map(|_| person("Augusta", Some(1815))).collect();
        let text = listed(Format::Table, &rows);
        assert_eq!(text.lines().count(), rows.len() + 1);
        assert_eq!(text.lines().filter(|line| line.contains("who")).count(), 1);
        assert!(text.lines().skip(1).all(|line| line == " Augusta  1815"), "{text}");
    }
}
