//! Bytes that come in pieces, as whole lines of bounded length.

use memchr::memchr;

use crate::buffer;

/// A line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct Overlong;

/// Joins the lines that cross two pieces. Holds the line that has begun, and nothing else.
#[derive(Debug)]
pub struct Lines {
    longest: usize,
    begun: Vec<u8>,
    /// Whether what was begun has been given as a line.
    is_given: bool,
    /// How many lines were given so far.
    number: u64,
    /// What comes before the next newline belongs to a line that is too long.
    skipping: bool,
}

impl Lines {
    pub fn new(longest: usize) -> Self {
        Self { longest, begun: Vec::new(), is_given: false, number: 0, skipping: false }
    }

    /// Takes the next line from a piece, without its newline; none when the piece has no further line end and is used up.
    pub fn next<'a, 'p: 'a>(&'a mut self, piece: &mut &'p [u8]) -> Result<Option<&'a [u8]>, Overlong> {
        if std::mem::take(&mut self.is_given) {
            self.begun.clear();
        }
        if self.skipping {
            let Some(newline) = memchr(b'\n', piece) else {
                *piece = &[];
                return Ok(None);
            };
            *piece = &piece[newline + 1..];
            self.skipping = false;
        }
        let newline = memchr(b'\n', piece);
        let line = &piece[..newline.unwrap_or(piece.len())];
        if self.begun.len() + line.len() > self.longest {
            self.number += 1;
            return Err(Overlong);
        }
        *piece = &piece[newline.map_or(line.len(), |newline| newline + 1)..];
        if newline.is_none() {
            buffer::append(&mut self.begun, line, self.longest);
            return Ok(None);
        }
        self.number += 1;
        if self.begun.is_empty() {
            return Ok(Some(line));
        }
        buffer::append(&mut self.begun, line, self.longest);
        self.is_given = true;
        Ok(Some(&self.begun))
    }

    /// Goes on after a line that is too long: with the one after it.
    pub fn skip_line(&mut self) {
        self.begun.clear();
        self.skipping = true;
    }

    /// Counts a line that was too long to be given here.
    pub fn count_skipped(&mut self) {
        self.number += 1;
    }

    /// Gives what is left after the last line break, if there is something.
    pub fn finish(&mut self) -> Option<&[u8]> {
        if std::mem::replace(&mut self.is_given, true) || self.begun.is_empty() {
            return None;
        }
        self.number += 1;
        Some(&self.begun)
    }

    /// The number of the last line that was given or is too long, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_bytes_come() {
        let text = b"one\n\ntwo and more\nlast";
        for step in 1..=text.len() {
            let (mut lines, mut got) = (Lines::new(12), Vec::new());
            for mut piece in text.chunks(step) {
                while let Some(line) = lines.next(&mut piece).unwrap() {
                    let line = String::from_utf8(line.to_vec()).unwrap();
                    got.push((lines.number(), line));
                }
                assert!(piece.is_empty());
            }
            let last = lines.finish().map(|line| String::from_utf8(line.to_vec()).unwrap());
            got.extend(last.map(|line| (lines.number(), line)));
            let expected = [(1, "one"), (2, ""), (3, "two and more"), (4, "last")];
            assert_eq!(got, expected.map(|(number, line)| (number, line.to_owned())), "{step}");
            assert_eq!(lines.finish(), None, "it was given");
        }
    }

    #[test]
    fn a_line_that_is_too_long_can_be_left_out() {
        let long = "x".repeat(100);
        let text = format!("short\n{long}\nnext\n{long}");
        for step in [1, 5, 99, 1000] {
            let (mut lines, mut got) = (Lines::new(8), Vec::new());
            for mut piece in text.as_bytes().chunks(step) {
                loop {
                    match lines.next(&mut piece) {
                        Ok(Some(line)) => got.push(String::from_utf8(line.to_vec()).unwrap()),
                        Ok(None) => break,
                        Err(Overlong) => {
                            lines.skip_line();
                            got.push(format!("line {}", lines.number()));
                        }
                    }
                }
                assert!(lines.begun.len() <= 8);
            }
            assert_eq!(
                (lines.finish(), got.as_slice()),
                (None, ["short", "line 2", "next", "line 4"].map(str::to_owned).as_slice())
            );
        }
    }

    #[test]
    fn a_line_that_is_too_long_ends_it_before_it_is_held() {
        for step in [1, 5, 100] {
            let mut lines = Lines::new(8);
            let text = [b"short\n".to_vec(), vec![b'x'; 100]].concat();
            let overlong = text.chunks(step).find_map(|mut piece| {
                loop {
                    match lines.next(&mut piece) {
                        Ok(Some(_)) => {}
                        Ok(None) => return None,
                        Err(overlong) => return Some(overlong),
                    }
                }
            });
            assert_eq!(overlong, Some(Overlong));
            assert!(lines.begun.len() <= 8 && lines.number() == 2, "{step}");
        }
    }
}
