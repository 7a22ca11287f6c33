//! Bytes that come in pieces, as whole lines of bounded length.

use memchr::memchr;

/// A line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overlong;

/// Joins the lines that cross two pieces.
#[derive(Debug)]
pub(super) struct Lines {
    longest: usize,
    rest: Vec<u8>,
    /// How many lines were given so far.
    number: u64,
}

impl Lines {
    pub(super) fn new(longest: usize) -> Self {
        Self { longest, rest: Vec::new(), number: 0 }
    }

    /// Calls `each` with every line that a piece completes, and its number, counted from 1.
    pub(super) fn take(&mut self, mut piece: &[u8], mut each: impl FnMut(u64, &[u8])) -> Result<(), Overlong> {
        while let Some(newline) = memchr(b'\n', piece) {
            let (line, after) = (&piece[..newline], &piece[newline + 1..]);
            self.number += 1;
            if self.rest.len() + line.len() > self.longest {
                return Err(Overlong);
            }
            if self.rest.is_empty() {
                each(self.number, line);
            } else {
                self.rest.extend_from_slice(line);
                each(self.number, &self.rest);
                self.rest.clear();
            }
            piece = after;
        }
        if self.rest.len() + piece.len() > self.longest {
            self.number += 1;
            return Err(Overlong);
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }

    /// Calls `each` with what is left after the last line break, if there is something.
    pub(super) fn finish(&mut self, mut each: impl FnMut(u64, &[u8])) {
        if !self.rest.is_empty() {
            self.number += 1;
            each(self.number, &std::mem::take(&mut self.rest));
        }
    }

    /// The number of the last line that was given or is too long.
    pub(super) fn number(&self) -> u64 {
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
            let mut each = |number: u64, line: &[u8]| got.push((number, String::from_utf8(line.to_vec()).unwrap()));
            for piece in text.chunks(step) {
                lines.take(piece, &mut each).unwrap();
            }
            lines.finish(&mut each);
            let expected = [(1, "one"), (2, ""), (3, "two and more"), (4, "last")];
            assert_eq!(got, expected.map(|(number, line)| (number, line.to_owned())), "{step}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_ends_it_before_it_is_held() {
        for step in [1, 5, 100] {
            let mut lines = Lines::new(8);
            let text = [b"short\n".to_vec(), vec![b'x'; 100]].concat();
            let overlong = text.chunks(step).find_map(|piece| lines.take(piece, |_, _| {}).err());
            assert_eq!(overlong, Some(Overlong));
            assert!(lines.rest.len() <= 8 && lines.number() == 2, "{step}");
        }
    }
}
