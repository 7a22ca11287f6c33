//! Reading a run back. A part is read whole (it is at most about `part_bytes`) and its hash is checked before any of it
//! is handed out, so no reader sees a line that differs from what was written; decompressed, it is never held whole.

use std::io::{Cursor, Read as _};

use bytes::{Buf as _, Bytes};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use memchr::{memchr, memchr_iter};
use object_store::path::Path;
use redrive_core::count;
use zstd::stream::read::Decoder;

use super::layout;
use super::manifest::{Manifest, PartInfo};
use super::small;
use crate::blocking::blocking;
use crate::raw::digest::Sha256;
use crate::raw::error::{Damage, Error};
use crate::raw::place::{Found, Place};

/// Decompressed bytes handed out at once.
const CHUNK: usize = 256 << 10;

pub(super) struct Reader {
    place: Place,
    dir: Path,
    parts: std::vec::IntoIter<PartInfo>,
    open: Option<Open>,
}

struct Open {
    decoder: Decoder<'static, Cursor<Bytes>>,
    object: String,
    part: PartInfo,
    records: u64,
    bytes: u64,
}

impl Reader {
    pub(super) fn new(place: Place, manifest: &Manifest) -> Self {
        let dir = layout::run(&place.base, &manifest.key, manifest.run_id);
        Self { place, dir, parts: manifest.parts.clone().into_iter(), open: None }
    }

    /// The next decompressed bytes; the last of a part come only when all its counts are right.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let (open, chunk) = match self.open.take() {
                Some(open) => blocking(move || open.read()).await?,
                None => match self.parts.next() {
                    Some(part) => self.open_part(part).await?,
                    None => return Ok(None),
                },
            };
            self.open = open;
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
    }

    async fn open_part(&self, part: PartInfo) -> Result<Read, Error> {
        let path = layout::object(&self.dir, &part.name);
        let object = self.place.name(&path);
        match self.place.read(&path, Some(part.compressed_bytes)).await? {
            None => Err(Damage::Missing { object }.into()),
            Some(Found::OtherSize(found)) => {
                Err(Damage::Size { object, expected: part.compressed_bytes, found }.into())
            }
            Some(Found::Bytes(compressed)) => blocking(move || Open::first(object, part, compressed)).await,
        }
    }
}

/// A part of which more may come, and bytes of it.
type Read = (Option<Open>, Bytes);

impl Open {
    /// Opens a part and reads the first of it, or all of it where that is small. Slow: for a blocking thread.
    fn first(object: String, part: PartInfo, compressed: Bytes) -> Result<Read, Error> {
        let found = Sha256::of(&compressed);
        if found != part.sha256 {
            return Err(Damage::Hash { object, expected: part.sha256, found }.into());
        }
        match small::decompress(&compressed, part.bytes) {
            Some(whole) => {
                same(&object, "records", part.records, lines_in(&whole))?;
                Ok((None, whole.into()))
            }
            None => Self::new(object, part, compressed)?.read(),
        }
    }

    fn new(object: String, part: PartInfo, compressed: Bytes) -> Result<Self, Error> {
        match Decoder::with_buffer(Cursor::new(compressed)) {
            Ok(decoder) => Ok(Self { decoder, object, part, records: 0, bytes: 0 }),
            Err(why) => Err(Damage::Undecodable { object, why: why.to_string() }.into()),
        }
    }

    /// Slow: for a blocking thread.
    fn read(mut self) -> Result<Read, Error> {
        let left = usize::try_from(self.part.bytes.saturating_sub(self.bytes)).unwrap_or(CHUNK);
        let mut chunk = Vec::with_capacity(left.min(CHUNK));
        let read = self.decoder.by_ref().take(count::of(CHUNK)).read_to_end(&mut chunk);
        if let Err(why) = read {
            return Err(Damage::Undecodable { object: self.object, why: why.to_string() }.into());
        }
        self.records += lines_in(&chunk);
        self.bytes += count::of(chunk.len());
        if chunk.len() == CHUNK {
            return Ok((Some(self), chunk.into()));
        }
        self.check_counts()?;
        Ok((None, chunk.into()))
    }

    fn check_counts(&self) -> Result<(), Damage> {
        same(&self.object, "records", self.part.records, self.records)?;
        same(&self.object, "bytes", self.part.bytes, self.bytes)
    }
}

fn lines_in(chunk: &[u8]) -> u64 {
    count::of(memchr_iter(b'\n', chunk).count())
}

pub(super) fn same(object: &str, unit: &'static str, expected: u64, found: u64) -> Result<(), Damage> {
    if expected == found {
        return Ok(());
    }
    Err(Damage::Count { object: object.to_owned(), unit, expected, found })
}

pub(super) fn chunks(reader: Reader) -> BoxStream<'static, Result<Bytes, Error>> {
    stream::try_unfold(reader, async |mut reader: Reader| Ok(reader.next_chunk().await?.map(|chunk| (chunk, reader))))
        .boxed()
}

/// One line at a time, without its newline. Holds one chunk and the line that runs across its end.
pub(super) fn lines(reader: Reader) -> BoxStream<'static, Result<Bytes, Error>> {
    stream::try_unfold(Lines { reader, chunk: Bytes::new(), begun: Vec::new() }, async |mut lines: Lines| {
        Ok(lines.next().await?.map(|line| (line, lines)))
    })
    .boxed()
}

struct Lines {
    reader: Reader,
    chunk: Bytes,
    begun: Vec<u8>,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(end) = memchr(b'\n', &self.chunk) {
                let tail = self.chunk.split_to(end);
                self.chunk.advance(1);
                if self.begun.is_empty() {
                    return Ok(Some(tail));
                }
                let mut line = std::mem::take(&mut self.begun);
                line.extend_from_slice(&tail);
                return Ok(Some(line.into()));
            }
            self.begun.extend_from_slice(&self.chunk);
            self.chunk = match self.reader.next_chunk().await? {
                Some(chunk) => chunk,
                // Every part ends with a newline, or its counts would not have been right.
                None => return Ok(None),
            };
        }
    }
}
