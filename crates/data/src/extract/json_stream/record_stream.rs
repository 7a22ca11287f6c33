//! Hands out the elements of the arrays at one path, and keeps small values that stand at others.

use super::fault::Fault;
use super::path::Path;
use super::path_matcher::PathMatcher;
use super::scanner::{Bracket, Piece, Scanner};
use crate::buffer;
use crate::extract::MAX_RECORD_BYTES;

/// The longest value that is kept besides the records.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// How many values can be kept.
const MAX_KEPT: usize = 8;

#[derive(Debug)]
pub struct RecordStream {
    scanner: Scanner,
    matcher: PathMatcher,
    doing: Doing,
    records: Path,
    record: Vec<u8>,
    found: bool,
    is_array: bool,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    path: Path,
    json: Vec<u8>,
    complete: bool,
}

/// What becomes of the bytes that come. A value that is dealt with as a whole ends when no more brackets are open than
/// when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Looking,
    Skipping { open: usize },
    Recording { open: usize },
    Keeping { which: usize, open: usize },
}

impl RecordStream {
    /// `records` leads to the array of records, or to several.
    pub fn new(records: Path, kept: impl IntoIterator<Item = Path>) -> Self {
        let kept = kept.into_iter().take(MAX_KEPT);
        Self {
            scanner: Scanner::new(),
            matcher: PathMatcher::default(),
            doing: Doing::Looking,
            records,
            record: Vec::new(),
            found: false,
            is_array: false,
            kept: kept.map(|path| Kept { path, json: Vec::new(), complete: false }).collect(),
        }
    }

    /// Reads on until a record is complete or the chunk is used up. A record comes as it stands in the document, on one
    /// line: line breaks between its tokens are left out.
    pub fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<&[u8]>, Fault> {
        loop {
            let (piece, used) = self.scanner.step(chunk)?;
            let (bytes, rest) = chunk.split_at(used);
            *chunk = rest;
            if piece == Piece::Nothing {
                return Ok(None);
            }
            if self.take(piece, bytes)? {
                return Ok(Some(&self.record));
            }
        }
    }

    /// Fails unless the document ended where it may.
    pub fn finish(&self) -> Result<(), Fault> {
        self.scanner.finish()
    }

    /// Whether there was an array, or null in its place, where records were looked for.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Whether the document itself is an array.
    pub fn is_array(&self) -> bool {
        self.is_array
    }

    /// A kept value as JSON, by its place in the list of paths; of several, the last.
    pub fn kept(&self, which: usize) -> Option<&[u8]> {
        self.kept.get(which).filter(|kept| kept.complete).map(|kept| kept.json.as_slice())
    }

    /// Bytes of memory that the buffers hold.
    #[cfg(test)]
    pub fn buffered(&self) -> usize {
        let kept: usize = self.kept.iter().map(|kept| kept.json.capacity()).sum();
        self.record.capacity() + self.matcher.capacity() + kept
    }

    /// Whether this piece completes a record.
    fn take(&mut self, piece: Piece, bytes: &[u8]) -> Result<bool, Fault> {
        if self.doing == Doing::Looking {
            self.look(piece, bytes)?;
        }
        let open = match self.doing {
            Doing::Looking => return Ok(false),
            Doing::Skipping { open } => open,
            Doing::Recording { open } => {
                append(&mut self.record, piece, bytes, MAX_RECORD_BYTES);
                if self.record.len() > MAX_RECORD_BYTES {
                    return Err(Fault::LongRecord { bytes: self.record.len() });
                }
                open
            }
            Doing::Keeping { which, open } => {
                let Kept { path, json, .. } = &mut self.kept[which];
                append(json, piece, bytes, MAX_VALUE_BYTES);
                if json.len() > MAX_VALUE_BYTES {
                    return Err(Fault::LongValue { path: path.to_string(), limit: MAX_VALUE_BYTES });
                }
                open
            }
        };
        if piece.ends_value() && self.scanner.depth() == open { self.end() } else { Ok(false) }
    }

    fn end(&mut self) -> Result<bool, Fault> {
        match std::mem::replace(&mut self.doing, Doing::Looking) {
            Doing::Looking | Doing::Skipping { .. } => Ok(false),
            Doing::Keeping { which, .. } => {
                self.kept[which].complete = true;
                Ok(false)
            }
            Doing::Recording { .. } => match std::str::from_utf8(&self.record) {
                Ok(_) => Ok(true),
                Err(_) => Err(Fault::Malformed { at: self.scanner.at(), why: "a record is not UTF-8" }),
            },
        }
    }

    fn look(&mut self, piece: Piece, bytes: &[u8]) -> Result<(), Fault> {
        match piece {
            Piece::Key { ends } => self.matcher.name(bytes, ends),
            Piece::Close => self.matcher.leave(),
            Piece::Open(bracket) => self.value(Some(bracket), bytes)?,
            Piece::Scalar { starts: true, .. } => self.value(None, bytes)?,
            Piece::Nothing | Piece::Space | Piece::Mark | Piece::Scalar { starts: false, .. } => {}
        }
        Ok(())
    }

    /// A value begins: decides what becomes of it.
    fn value(&mut self, bracket: Option<Bracket>, bytes: &[u8]) -> Result<(), Fault> {
        let open = self.matcher.depth();
        self.is_array |= open == 0 && bracket == Some(Bracket::Array);
        if self.matcher.among_records() {
            self.record.clear();
            self.doing = Doing::Recording { open };
            return Ok(());
        }
        let leads = self.matcher.leads(&self.records, self.kept.iter().map(|kept| &kept.path));
        if leads.records && self.matcher.leads_again() {
            return Err(Fault::Twice { path: self.records.to_string() });
        }
        let is_kept = |(which, kept): &(usize, &mut Kept)| leads.to_kept(*which) && kept.path.len() == open;
        if let Some((which, kept)) = self.kept.iter_mut().enumerate().find(is_kept) {
            kept.json.clear();
            kept.complete = false;
            self.doing = Doing::Keeping { which, open };
            return Ok(());
        }
        let of_records = leads.records && self.records.len() == open;
        if of_records {
            self.found = true;
            let is_null = bytes.starts_with(b"n");
            if bracket != Some(Bracket::Array) && !is_null {
                return Err(Fault::NoArray { path: self.records.to_string() });
            }
        }
        match bracket {
            Some(bracket) if leads.anywhere() => self.matcher.enter(bracket, leads, of_records),
            Some(_) | None => self.doing = Doing::Skipping { open },
        }
        Ok(())
    }
}

fn append(text: &mut Vec<u8>, piece: Piece, bytes: &[u8], longest: usize) {
    match piece {
        Piece::Space => text.extend(bytes.iter().filter(|byte| !matches!(byte, b'\n' | b'\r'))),
        Piece::Nothing | Piece::Mark | Piece::Open(_) | Piece::Close | Piece::Key { .. } | Piece::Scalar { .. } => {
            buffer::append(text, bytes, longest);
        }
    }
}
