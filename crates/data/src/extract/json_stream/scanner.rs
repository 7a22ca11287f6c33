//! Splits a document into pieces and checks its grammar, whatever the sizes of the chunks that it comes in.

use super::fault::Fault;
use super::number::Number;
use super::string::{Reached, Text};

/// How deep brackets may be nested: as deep as a parser of records will go later.
pub(super) const MAX_DEPTH: usize = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Array,
    Object,
}

/// What the bytes of a piece are. Strings, numbers and the like may come in several pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// There is no more input.
    Nothing,
    Space,
    /// A comma or a colon.
    Mark,
    Open(Bracket),
    Close,
    Key {
        ends: bool,
    },
    /// Any value without brackets. The last piece may have no bytes: a number's end shows only in what follows.
    Scalar {
        starts: bool,
        ends: bool,
    },
}

impl Piece {
    pub(super) fn ends_value(self) -> bool {
        matches!(self, Self::Close | Self::Scalar { ends: true, .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ElementOrEnd,
    KeyOrEnd,
    Key,
    Colon,
    CommaOrEnd,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Key(Text),
    String(Text),
    Number(Number),
    /// What is still to come of `true`, `false` or `null`.
    Word(&'static [u8]),
}

#[derive(Debug)]
pub(super) struct Scanner {
    open: Vec<Bracket>,
    expect: Expect,
    inside: Inside,
    /// Bytes read so far.
    at: u64,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { open: Vec::new(), expect: Expect::Value, inside: Inside::Nothing, at: 0 }
    }

    /// How many brackets are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    fn within(&self) -> Option<Bracket> {
        self.open.last().copied()
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next piece, and how many bytes of the input it takes.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<(Piece, usize), Fault> {
        let Some(&byte) = input.first() else { return Ok((Piece::Nothing, 0)) };
        let (piece, used) = match self.inside {
            Inside::Nothing => self.begin(byte, input)?,
            Inside::Key(text) => self.key(text, input, 0)?,
            Inside::String(text) => self.string(text, input, 0)?,
            Inside::Number(number) => self.number(number, input, 0)?,
            Inside::Word(rest) => self.word(rest, input, 0)?,
        };
        self.at += u64::try_from(used).unwrap_or(u64::MAX);
        Ok((piece, used))
    }

    /// Whether the document was whole.
    pub(super) fn finish(&self) -> Result<(), Fault> {
        match (self.expect, self.inside) {
            (Expect::Nothing, Inside::Nothing) => Ok(()),
            (_, Inside::Number(number)) if self.open.is_empty() && number.is_whole() => Ok(()),
            _ => Err(Fault::Cut { at: self.at }),
        }
    }

    fn begin(&mut self, byte: u8, input: &[u8]) -> Result<(Piece, usize), Fault> {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            let used = input.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
            return Ok((Piece::Space, used));
        }
        match (self.expect, byte) {
            (Expect::ElementOrEnd, b']') => Ok((self.close(), 1)),
            (Expect::Value | Expect::ElementOrEnd, _) => self.value(byte, input),
            (Expect::KeyOrEnd, b'}') => Ok((self.close(), 1)),
            (Expect::KeyOrEnd | Expect::Key, b'"') => self.key(Text::Plain, input, 1),
            (Expect::KeyOrEnd | Expect::Key, _) => Err(self.malformed(0, "a name was expected")),
            (Expect::Colon, b':') => {
                self.expect = Expect::Value;
                Ok((Piece::Mark, 1))
            }
            (Expect::Colon, _) => Err(self.malformed(0, "a colon was expected")),
            (Expect::CommaOrEnd, _) => self.comma_or_end(byte),
            (Expect::Nothing, _) => Err(self.malformed(0, "there is more after its end")),
        }
    }

    fn comma_or_end(&mut self, byte: u8) -> Result<(Piece, usize), Fault> {
        match (self.within(), byte) {
            (Some(Bracket::Array), b',') => self.expect = Expect::Value,
            (Some(Bracket::Object), b',') => self.expect = Expect::Key,
            (Some(Bracket::Array), b']') | (Some(Bracket::Object), b'}') => return Ok((self.close(), 1)),
            _ => return Err(self.malformed(0, "a comma or a closing bracket was expected")),
        }
        Ok((Piece::Mark, 1))
    }

    fn value(&mut self, byte: u8, input: &[u8]) -> Result<(Piece, usize), Fault> {
        let word: &'static [u8] = match byte {
            b'{' => return self.open(Bracket::Object, Expect::KeyOrEnd),
            b'[' => return self.open(Bracket::Array, Expect::ElementOrEnd),
            b'"' => return self.string(Text::Plain, input, 1),
            b't' => b"rue",
            b'f' => b"alse",
            b'n' => b"ull",
            _ => {
                let number = Number::begin(byte).ok_or_else(|| self.malformed(0, "a value was expected"))?;
                return self.number(number, input, 1);
            }
        };
        self.word(word, input, 1)
    }

    fn open(&mut self, bracket: Bracket, expect: Expect) -> Result<(Piece, usize), Fault> {
        if self.open.len() == MAX_DEPTH {
            return Err(Fault::Deep { limit: MAX_DEPTH });
        }
        self.open.push(bracket);
        self.expect = expect;
        Ok((Piece::Open(bracket), 1))
    }

    fn close(&mut self) -> Piece {
        self.open.pop();
        self.after_value();
        Piece::Close
    }

    fn after_value(&mut self) {
        self.inside = Inside::Nothing;
        self.expect = if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn key(&mut self, text: Text, input: &[u8], from: usize) -> Result<(Piece, usize), Fault> {
        match text.read(&input[from..]) {
            Reached::End(length) => {
                self.inside = Inside::Nothing;
                self.expect = Expect::Colon;
                Ok((Piece::Key { ends: true }, from + length))
            }
            Reached::Inside(text) => {
                self.inside = Inside::Key(text);
                Ok((Piece::Key { ends: false }, input.len()))
            }
            Reached::Wrong(at, why) => Err(self.malformed(from + at, why)),
        }
    }

    fn string(&mut self, text: Text, input: &[u8], from: usize) -> Result<(Piece, usize), Fault> {
        let starts = from > 0;
        match text.read(&input[from..]) {
            Reached::End(length) => {
                self.after_value();
                Ok((Piece::Scalar { starts, ends: true }, from + length))
            }
            Reached::Inside(text) => {
                self.inside = Inside::String(text);
                Ok((Piece::Scalar { starts, ends: false }, input.len()))
            }
            Reached::Wrong(at, why) => Err(self.malformed(from + at, why)),
        }
    }

    fn number(&mut self, mut number: Number, input: &[u8], from: usize) -> Result<(Piece, usize), Fault> {
        let starts = from > 0;
        for (at, &byte) in input.iter().enumerate().skip(from) {
            let Some(next) = number.then(byte) else {
                if !number.is_whole() {
                    return Err(self.malformed(at, "a digit was expected"));
                }
                self.after_value();
                return Ok((Piece::Scalar { starts, ends: true }, at));
            };
            number = next;
        }
        self.inside = Inside::Number(number);
        Ok((Piece::Scalar { starts, ends: false }, input.len()))
    }

    fn word(&mut self, rest: &'static [u8], input: &[u8], from: usize) -> Result<(Piece, usize), Fault> {
        let starts = from > 0;
        let there = rest.len().min(input.len() - from);
        if input[from..from + there] != rest[..there] {
            return Err(self.malformed(from, "a value was expected"));
        }
        let ends = there == rest.len();
        if ends {
            self.after_value();
        } else {
            self.inside = Inside::Word(&rest[there..]);
        }
        Ok((Piece::Scalar { starts, ends }, from + there))
    }

    fn malformed(&self, ahead: usize, why: &'static str) -> Fault {
        Fault::Malformed { at: self.at + u64::try_from(ahead).unwrap_or(0), why }
    }
}
