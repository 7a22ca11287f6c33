//! Tables for people: numbers to the right, one line a row, and as wide as the terminal is. Where that is too narrow, texts are
//! cut, columns that can be spared are left out, and details stand on a line of their own below their row.

use std::fmt;

use anstyle::Style;
use redrive_core::text::one_line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::tone;

/// The least that is left of a text that is cut.
const LEAST: usize = 16;
/// The least that is left of a detail before it goes below its row.
const LEAST_DETAIL: usize = 24;
const GAP: usize = 2;
/// What stands before a row, and before what stands below it.
const MARGIN: usize = 1;
const BELOW: usize = 3;

/// One column: what it is called, and what becomes of it where the line is too long.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    name: &'static str,
    is_number: bool,
    fit: Fit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Always whole: ids, keys and words that people copy.
    Whole,
    /// Left out, the lowest number first.
    Spared(u8),
    /// Cut, the widest first.
    Cut,
    /// Cut, and below its row where that is not enough.
    Below,
}

impl Column {
    pub const fn new(name: &'static str) -> Self {
        Self { name, is_number: false, fit: Fit::Whole }
    }

    /// A column of numbers, which stand to the right.
    pub const fn number(name: &'static str) -> Self {
        Self { name, is_number: true, fit: Fit::Whole }
    }

    /// A column of texts that may be cut.
    pub const fn text(name: &'static str) -> Self {
        Self { name, is_number: false, fit: Fit::Cut }
    }

    /// A column of long texts, one of which may stand below its row.
    pub const fn detail(name: &'static str) -> Self {
        Self { name, is_number: false, fit: Fit::Below }
    }

    /// The same column, left out where the terminal is too narrow: those with the lowest number first.
    pub const fn spared(self, turn: u8) -> Self {
        Self { fit: Fit::Spared(turn), ..self }
    }

    /// When its turn is to be left out; never for most.
    fn turn(self) -> Option<u8> {
        match self.fit {
            Fit::Spared(turn) => Some(turn),
            Fit::Whole | Fit::Cut | Fit::Below => None,
        }
    }

    fn least(self, widest: usize) -> usize {
        match self.fit {
            Fit::Whole | Fit::Spared(_) => widest,
            Fit::Cut => widest.min(LEAST),
            Fit::Below => widest.min(LEAST_DETAIL),
        }
    }
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

    pub fn empty() -> Self {
        Self::new("")
    }

    /// A value's text, or nothing.
    pub fn some(value: Option<impl ToString>) -> Self {
        value.map_or_else(Self::empty, |value| Self::new(value.to_string()))
    }

    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { style, ..Self::new(text) }
    }

    /// A word for how something stands, in its colour.
    pub fn state(word: &str) -> Self {
        Self::styled(word, tone::of(word))
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, style } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

/// Rows, and the columns that they stand in.
#[derive(Debug)]
pub struct Columns {
    header: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Where the columns stand, once it is known what is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// Which columns stand side by side, and how wide each is.
    beside: Vec<(usize, usize)>,
    /// Which stand below their row.
    below: Vec<usize>,
    width: Option<usize>,
}

impl Columns {
    pub fn new(header: &[Column]) -> Self {
        Self { header: header.to_vec(), rows: vec![] }
    }

    /// Adds a row. Cells that it lacks are empty.
    pub fn add(&mut self, mut row: Vec<Cell>) {
        row.resize_with(self.header.len(), Cell::empty);
        self.rows.push(row);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table, the header first; at most `width` wide. A column without anything in it is left out.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let arrangement = self.arrange(width, true);
        std::iter::once(self.header(&arrangement)).chain(self.body(&arrangement)).collect()
    }

    /// Finds room for the columns, those without anything in them apart where that is asked for.
    pub fn arrange(&self, width: Option<usize>, without_empty: bool) -> Arrangement {
        let is_wanted = |nth: &usize| !without_empty || self.rows.iter().any(|row| !row[*nth].is_empty());
        let wanted: Vec<usize> = (0..self.header.len()).filter(is_wanted).collect();
        let widest: Vec<usize> = (0..self.header.len()).map(|nth| self.widest(nth)).collect();
        let Some(most) = width else {
            let beside = wanted.into_iter().map(|nth| (nth, widest[nth])).collect();
            return Arrangement { beside, below: vec![], width };
        };
        let (below, beside): (Vec<usize>, Vec<usize>) =
            wanted.iter().copied().partition(|&nth| self.header[nth].fit == Fit::Below);
        let in_line = self.without_spared(wanted, &widest, most).map(|beside| (beside, vec![]));
        let in_two = || self.without_spared(beside.clone(), &widest, most).map(|beside| (beside, below.clone()));
        // Where nothing helps, lines end where the terminal does.
        let too_wide = || {
            let whole = beside.iter().filter(|&&nth| self.header[nth].turn().is_none());
            (whole.map(|&nth| (nth, self.header[nth].least(widest[nth]))).collect(), below.clone())
        };
        let (beside, below) = in_line.or_else(in_two).unwrap_or_else(too_wide);
        Arrangement { beside, below, width }
    }

    /// Leaves out what can be spared, one column after the other, until the rest fits.
    fn without_spared(&self, mut columns: Vec<usize>, widest: &[usize], most: usize) -> Option<Vec<(usize, usize)>> {
        loop {
            if let Some(widths) = self.fit(&columns, widest, most) {
                return Some(columns.into_iter().zip(widths).collect());
            }
            let turns = columns.iter().enumerate().filter_map(|(place, &nth)| Some((self.header[nth].turn()?, place)));
            let (_, spared) = turns.min()?;
            columns.remove(spared);
        }
    }

    /// How wide each column is, where together they fit; texts are cut, the widest first.
    fn fit(&self, columns: &[usize], widest: &[usize], most: usize) -> Option<Vec<usize>> {
        let gaps = MARGIN + GAP * columns.len().saturating_sub(1);
        let cut_at = |cap: usize| -> Vec<usize> {
            let width = |&nth: &usize| widest[nth].min(cap).max(self.header[nth].least(widest[nth]));
            columns.iter().map(width).collect()
        };
        let fits = |cap: usize| gaps + cut_at(cap).iter().sum::<usize>() <= most;
        // The largest cap that fits, between one that must and one that cuts nothing.
        let (mut low, mut high) = (0, columns.iter().map(|&nth| widest[nth]).max().unwrap_or(0));
        if !fits(low) {
            return None;
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(cut_at(low))
    }

    fn widest(&self, nth: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[nth].text.width());
        cells.chain([self.header[nth].name.width()]).max().unwrap_or(0)
    }

    /// The line with the columns' names.
    pub fn header(&self, arrangement: &Arrangement) -> String {
        let dim = Style::new().dimmed();
        let names: Vec<Cell> = self.header.iter().map(|column| Cell::styled(column.name, dim)).collect();
        self.line(&names, arrangement)
    }

    /// The rows, each with what stands below it.
    pub fn body(&self, arrangement: &Arrangement) -> Vec<String> {
        let rows = self.rows.iter();
        rows.flat_map(|row| [Some(self.line(row, arrangement)), below(row, arrangement)]).flatten().collect()
    }

    fn line(&self, row: &[Cell], arrangement: &Arrangement) -> String {
        let mut line = " ".repeat(MARGIN);
        let mut left = arrangement.width.map_or(usize::MAX, |width| width.saturating_sub(MARGIN));
        for (place, &(nth, width)) in arrangement.beside.iter().enumerate() {
            let Cell { text, style } = &row[nth];
            let gap = if place == 0 { 0 } else { GAP.min(left) };
            left -= gap;
            let width = width.min(left);
            left -= width;
            let text = cut(text, width);
            // Signs for colours alone would be taken for something at the end of the line.
            let style = if text.is_empty() { Style::new() } else { *style };
            let room = " ".repeat(width.saturating_sub(text.width()));
            line += &" ".repeat(gap);
            match self.header[nth].is_number {
                true => line += &format!("{room}{style}{text}{style:#}"),
                false => line += &format!("{style}{text}{style:#}{room}"),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

impl Arrangement {
    /// Makes room for rows that came later, as far as there is any.
    pub fn widen(&mut self, columns: &Columns) {
        for (nth, width) in &mut self.beside {
            let is_whole = matches!(columns.header[*nth].fit, Fit::Whole | Fit::Spared(_));
            if is_whole || self.width.is_none() {
                *width = (*width).max(columns.widest(*nth));
            }
        }
    }
}

/// The line below a row; none where there is nothing to say.
fn below(row: &[Cell], arrangement: &Arrangement) -> Option<String> {
    let texts = arrangement.below.iter().map(|&nth| row[nth].text.as_str()).filter(|text| !text.is_empty());
    let text = texts.collect::<Vec<_>>().join(": ");
    let most = arrangement.width.map_or(usize::MAX, |width| width.saturating_sub(BELOW));
    (!text.is_empty()).then(|| format!("{}{}", " ".repeat(BELOW), cut(&text, most)))
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
    if width == 0 {
        return String::new();
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

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.into_iter().map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
    }

    fn filled(header: &[Column], rows: &[&[&str]]) -> Columns {
        let mut table = Columns::new(header);
        rows.iter().for_each(|row| table.add(row.iter().map(Cell::new).collect()));
        table
    }

    fn table(width: Option<usize>) -> Vec<String> {
        let header = [Column::new("name"), Column::number("count"), Column::number("never"), Column::text("why")];
        let rows: &[&[&str]] =
            &[&["ads", "7", "", "short"], &["a longer name", "10,000", "", "something that takes a good deal of room"]];
        plain(filled(&header, rows).lines(width))
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
    fn a_text_gives_way_to_the_terminal() {
        let lines = table(Some(50));
        assert_eq!(lines[2], " a longer name  10,000  something that takes a go…");
        assert!(lines.iter().all(|line| line.width() <= 50));
        assert_eq!(table(Some(40))[2], " a longer name  10,000  something that…", "never less than it needs");
        assert_eq!(table(Some(10))[2], " a longer…", "a line ends where the terminal does");
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn the_widest_text_is_cut_first() {
        let header = [Column::text("short"), Column::text("long")];
        let rows: &[&[&str]] = &[&["twenty letters, just", "a text that is a good deal longer than the other"]];
        let lines = plain(filled(&header, rows).lines(Some(60)));
        assert_eq!(lines[1], " twenty letters, just  a text that is a good deal longer th…");
        let lines = plain(filled(&header, rows).lines(Some(39)));
        assert_eq!(lines[1], " twenty letters, j…  a text that is a…");
    }

    const NARROW: [Column; 4] =
        [Column::new("id"), Column::new("kind").spared(1), Column::new("state"), Column::detail("error")];
    const LONG: &str = "the connection was closed before the answer had come";

    /// First texts are cut, then a column is spared, then the detail goes below; what is empty has no line there.
    #[test]
    fn a_narrow_terminal_has_details_below() {
        let rows: &[&[&str]] = &[&["0123456789", "process", "dead", LONG], &["9876543210", "process", "done", ""]];
        let at = |width| plain(filled(&NARROW, rows).lines(Some(width)));
        assert_eq!(at(60)[1], " 0123456789  process  dead   the connection was closed befo…");
        assert_eq!(at(50)[0], " id          state  error");
        assert_eq!(at(50)[1], " 0123456789  dead   the connection was closed bef…");
        assert_eq!(
            at(40),
            [
                " id          kind     state",
                " 0123456789  process  dead",
                "   the connection was closed before the…",
                " 9876543210  process  done",
            ]
        );
        assert_eq!(at(20)[0], " id          state", "what can be spared is");
    }

    #[test]
    fn rows_that_come_later_find_room() {
        let first = filled(&NARROW, &[&["1", "process", "done", ""]]);
        let later = filled(&NARROW, &[&["12345", "process", "done", "boom"]]);
        let mut arrangement = first.arrange(None, false);
        arrangement.widen(&later);
        assert_eq!(plain(later.body(&arrangement)), [" 12345  process  done   boom"]);
        let mut arrangement = first.arrange(Some(30), false);
        arrangement.widen(&later);
        assert!(later.body(&arrangement).iter().all(|line| width(line) <= 30));
    }
}
