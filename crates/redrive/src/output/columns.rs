//! Tables for people that know how wide the terminal is: numbers to the right, one line a row, one column that gives way, and
//! no column without anything in it.

use std::fmt;

use anstyle::Style;
use redrive_core::text::one_line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The least that is left of the column that gives way.
const LEAST: usize = 16;
const GAP: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
    /// To the left, and cut where the line is too long.
    Flexible,
}

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: one_line(text.as_ref()), style: Style::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { style, ..Self::new(text) }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, style } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

#[derive(Debug)]
pub struct Columns {
    header: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Columns {
    pub fn new(header: &[(&'static str, Align)]) -> Self {
        Self { header: header.to_vec(), rows: vec![] }
    }

    pub fn add(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The lines of the table, the header first; at most `width` wide where that can be done.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let used: Vec<usize> =
            (0..self.header.len()).filter(|&nth| self.rows.iter().any(|row| !row[nth].text.is_empty())).collect();
        let widths = self.widths(&used, width);
        let dim = Style::new().dimmed();
        let header: Vec<Cell> = self.header.iter().map(|(name, _)| Cell::styled(name, dim)).collect();
        std::iter::once(&header).chain(&self.rows).map(|row| self.line(row, &used, &widths)).collect()
    }

    fn widths(&self, used: &[usize], width: Option<usize>) -> Vec<usize> {
        let widest = |nth: usize| {
            let cells = self.rows.iter().map(|row| row[nth].text.width());
            cells.chain([self.header[nth].0.width()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = used.iter().map(|&nth| widest(nth)).collect();
        let all = 1 + widths.iter().sum::<usize>() + GAP * used.len().saturating_sub(1);
        let over = width.map_or(0, |width| all.saturating_sub(width));
        if let Some(place) = used.iter().position(|&nth| self.header[nth].1 == Align::Flexible) {
            widths[place] = widths[place].saturating_sub(over).max(LEAST.min(widths[place]));
        }
        widths
    }

    fn line(&self, row: &[Cell], used: &[usize], widths: &[usize]) -> String {
        let mut line = String::from(" ");
        for (place, (&nth, &width)) in used.iter().zip(widths).enumerate() {
            let Cell { text, style } = &row[nth];
            let text = cut(text, width);
            let room = " ".repeat(width.saturating_sub(text.width()));
            let gap = if place + 1 < used.len() { "  " } else { "" };
            match self.header[nth].1 {
                Align::Right => line += &format!("{room}{style}{text}{style:#}{gap}"),
                Align::Left | Align::Flexible => line += &format!("{style}{text}{style:#}{room}{gap}"),
            }
        }
        line.trim_end().to_owned()
    }
}

/// How wide a line is on a terminal, its colours apart.
pub fn width(line: &str) -> usize {
    anstream::adapter::strip_str(line).to_string().width()
}

/// A text no wider than this, with a sign where something was cut off.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut wide) = (String::new(), 1);
    for letter in text.chars() {
        wide += letter.width().unwrap_or(0);
        if wide > width {
            break;
        }
        kept.push(letter);
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<usize>) -> Vec<String> {
        let mut table = Columns::new(&[
            ("name", Align::Left),
            ("count", Align::Right),
            ("never", Align::Right),
            ("why", Align::Flexible),
        ]);
        let row =
            |name: &str, count: &str, why: &str| vec![Cell::new(name), Cell::new(count), Cell::new(""), Cell::new(why)];
        table.add(row("ads", "7", "short"));
        table.add(row("a longer name", "10,000", "something that takes a good deal of room"));
        let plain = |line: String| anstream::adapter::strip_str(&line).to_string();
        table.lines(width).into_iter().map(plain).collect()
    }

    #[test]
    fn numbers_are_to_the_right_and_an_empty_column_is_left_out() {
        assert_eq!(
            table(None),
            [
                " name            count  why",
                " ads                 7  short",
                " a longer name  10,000  something that takes a good deal of room",
            ]
        );
    }

    #[test]
    fn one_column_gives_way_to_the_terminal() {
        let lines = table(Some(50));
        assert_eq!(lines[2], " a longer name  10,000  something that takes a go…");
        assert!(lines.iter().all(|line| line.width() <= 50));
        assert_eq!(table(Some(10))[2], " a longer name  10,000  something that…", "never less than it needs");
        assert_eq!(cut("日本語", 4), "日…");
    }
}
