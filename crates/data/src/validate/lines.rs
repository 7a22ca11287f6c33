//! From pieces of a part to whole lines, without copying those that lie in one piece.

use std::ops::ControlFlow;

use memchr::{memchr, memchr_iter, memrchr};
use redrive_core::count;

use crate::buffer;
use crate::extract::MAX_RECORD_BYTES;

/// One or more whole lines. The first record of a run is number 1.
#[derive(Debug, Clone, Copy)]
pub(super) enum Block<'a> {
    /// Each line ends with a newline.
    Lines { first: u64, bytes: &'a [u8] },
    /// A record longer than any extractor may bring; all of it was passed over.
    Overlong { number: u64, beginning: &'a [u8] },
}

impl<'a> Block<'a> {
    /// The lines with their numbers, without their newlines.
    pub(super) fn split(first: u64, bytes: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        let mut begin = 0;
        (first..).zip(memchr_iter(b'\n', bytes).map(move |end| {
            let line = &bytes[begin..end];
            begin = end + 1;
            line
        }))
    }
}

/// Holds the line that runs on into the next piece, and nothing else.
#[derive(Debug)]
pub(super) struct Lines {
    next: u64,
    begun: Vec<u8>,
    longest: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { next: 1, begun: Vec::new(), longest: MAX_RECORD_BYTES }
    }
}

impl Lines {
    /// Takes a piece and hands on every line that it completes.
    pub(super) fn take<E>(
        &mut self,
        piece: &[u8],
        mut look: impl FnMut(Block<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let mut rest = piece;
        if !self.begun.is_empty() {
            let Some(end) = memchr(b'\n', piece) else {
                self.hold(piece);
                return Ok(ControlFlow::Continue(()));
            };
            self.hold(&piece[..=end]);
            rest = &piece[end + 1..];
            if self.complete(&mut look)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let whole = memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (bytes, tail) = rest.split_at(whole);
        self.hold(tail);
        if bytes.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let first = self.next;
        self.next += count::of(memchr_iter(b'\n', bytes).count());
        look(Block::Lines { first, bytes })
    }

    fn complete<E>(
        &mut self,
        look: &mut impl FnMut(Block<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let number = self.next;
        self.next += 1;
        let flow = if self.begun.len() > self.longest + 1 {
            look(Block::Overlong { number, beginning: &self.begun })
        } else {
            look(Block::Lines { first: number, bytes: &self.begun })
        };
        self.begun.clear();
        flow
    }

    /// Of a line that is too long only as much is kept as shows that it is.
    fn hold(&mut self, bytes: &[u8]) {
        let room = (self.longest + 2).saturating_sub(self.begun.len());
        buffer::append(&mut self.begun, &bytes[..bytes.len().min(room)], self.longest + 2);
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.begun.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use proptest::prelude::*;

    /// A line's number, and its text unless it was too long.
    type Seen = (u64, Option<Vec<u8>>);

    fn lines_of(pieces: &[Vec<u8>], longest: usize) -> (Vec<Seen>, usize) {
        let mut lines = Lines { longest, ..Lines::default() };
        let mut seen = Vec::new();
        let mut held = 0;
        for piece in pieces {
            let flow: Result<_, Infallible> = lines.take(piece, |block| {
                match block {
                    Block::Lines { first, bytes } => {
                        seen.extend(Block::split(first, bytes).map(|(number, line)| (number, Some(line.to_vec()))));
                    }
                    Block::Overlong { number, .. } => seen.push((number, None)),
                }
                Ok(ControlFlow::Continue(()))
            });
            assert!(flow.unwrap().is_continue());
            held = held.max(lines.held());
        }
        (seen, held)
    }

    proptest! {
        #[test]
        fn however_a_part_is_cut_its_lines_are_the_same(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let text = text + "\n";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<Vec<u8>> = cuts.windows(2).map(|ends| text.as_bytes()[ends[0]..ends[1]].to_vec()).collect();
            let expected: Vec<_> = (1..).zip(text.lines().map(|line| Some(line.as_bytes().to_vec()))).collect();
            prop_assert_eq!(lines_of(&pieces, 100).0, expected);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_not_held() {
        let mut pieces = vec![b"ok\nlong".to_vec()];
        pieces.extend(std::iter::repeat_n(vec![b'x'; 1000], 100));
        pieces.push(b"x\nok\n".to_vec());
        let (seen, held) = lines_of(&pieces, 2000);
        assert_eq!(seen, [(1, Some(b"ok".to_vec())), (2, None), (3, Some(b"ok".to_vec()))]);
        assert!(held <= 4096, "{held}");
    }

    #[test]
    fn the_longest_line_is_not_too_long() {
        for (length, fits) in [(8, true), (9, false)] {
            let mut line = vec![b'x'; length];
            let pieces = [line.split_off(3), [line, b"\n".to_vec()].concat()];
            assert_eq!(lines_of(&pieces, 8).0[0].1.is_some(), fits, "{length}");
        }
    }

    #[test]
    fn looking_ends_when_nobody_wants_more() {
        let mut lines = Lines::default();
        let broken: Result<_, Infallible> = lines.take(b"a", |_| Ok(ControlFlow::Break(())));
        assert!(broken.unwrap().is_continue(), "no line is whole yet");
        let mut looks = 0;
        let broken: Result<_, Infallible> = lines.take(b"\nb\n", |_| {
            looks += 1;
            Ok(ControlFlow::Break(()))
        });
        assert!(broken.unwrap().is_break());
        assert_eq!(looks, 1);
    }
}
