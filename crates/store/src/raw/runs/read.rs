//! Reading a run back. A part is read whole (it is at most about `part_bytes`) and its hash is checked before any of it
//! is handed out, so nobody sees a line that differs from what was written; decompressed, it is never held whole.

use std::io::{Cursor, Read as _};

use bytes::{Buf as _, Bytes};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use memchr::{memchr, memchr_iter};
use object_store::path::Path;
use zstd::stream::read::Decoder;

use super::layout;
use super::manifest::{Manifest, PartInfo};
use crate::raw::digest::Sha256;
use crate::raw::error::{Damage, Error};
use crate::raw::place::{Found, Place, blocking};

/// Decompressed bytes handed out at once.
const CHUNK: u64 = 256 << 10;

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
            let open = match self.open.take() {
                Some(open) => open,
                None => match self.parts.next() {
                    Some(part) => self.open_part(part).await?,
                    None => return Ok(None),
                },
            };
            let object = open.object.clone();
            let read = blocking(move || open.read()).await;
            let (open, chunk) = read.map_err(|why| Damage::Undecodable { object, why: why.to_string() })?;
            if chunk.is_empty() {
                open.check_counts()?;
                continue;
            }
            self.open = Some(open);
            return Ok(Some(chunk));
        }
    }

    async fn open_part(&self, part: PartInfo) -> Result<Open, Error> {
        let path = layout::object(&self.dir, &part.name);
        let object = self.place.name(&path);
        let compressed = match self.place.read(&path, Some(part.compressed_bytes)).await? {
            None => return Err(Damage::Missing { object }.into()),
            Some(Found::OtherSize(found)) => {
                return Err(Damage::Size { object, expected: part.compressed_bytes, found }.into());
            }
            Some(Found::Bytes(bytes)) => bytes,
        };
        let opened =
            blocking(move || Ok((Sha256::of(&compressed), Decoder::with_buffer(Cursor::new(compressed))?))).await;
        let (found, decoder) =
            opened.map_err(|why| Damage::Undecodable { object: object.clone(), why: why.to_string() })?;
        if found != part.sha256 {
            return Err(Damage::Hash { object, expected: part.sha256, found }.into());
        }
        Ok(Open { decoder, object, part, records: 0, bytes: 0 })
    }
}

impl Open {
    fn read(mut self) -> std::io::Result<(Self, Bytes)> {
        let mut chunk = Vec::with_capacity(usize::try_from(CHUNK).unwrap_or(0));
        self.decoder.by_ref().take(CHUNK).read_to_end(&mut chunk)?;
        let newlines = memchr_iter(b'\n', &chunk).count();
        self.records += u64::try_from(newlines).unwrap_or(u64::MAX);
        self.bytes += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        Ok((self, chunk.into()))
    }

    fn check_counts(&self) -> Result<(), Damage> {
        same(&self.object, "records", self.part.records, self.records)?;
        same(&self.object, "bytes", self.part.bytes, self.bytes)
    }
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
