//! Writing one attempt: lines in, parts out, the manifest last. While one chunk is compressed, the next is filled.

use std::io;

use bytes::Bytes;
use memchr::{memchr, memchr_iter, memmem};
use object_store::path::Path;
use redrive_core::count;
use redrive_core::time::Timestamp;
use tokio::task::JoinHandle;

use super::layout;
use super::manifest::{Manifest, PartInfo, RunOutcome};
use super::part::Part;
use super::sink::RunHeader;
use crate::memory::{MemoryBudget, MemoryShare};
use crate::raw::digest::Sha256;
use crate::raw::error::Error;
use crate::raw::place::Place;
use crate::raw::put::{self, Before, Object};

/// How much is gathered before it is compressed on a blocking thread: about a millisecond of work.
const CHUNK: usize = 1 << 20;

/// One attempt's directory while it is written. Dropping the writer leaves the directory without a manifest, which is
/// how an attempt that died looks.
pub struct RawWriter {
    place: Place,
    dir: Path,
    header: RunHeader,
    part_bytes: usize,
    memory: MemoryBudget,
    /// None while all that was written is in one chunk.
    share: Option<MemoryShare>,
    /// Filled here, while the chunk before it is compressed elsewhere.
    chunk: Vec<u8>,
    compressor: Compressor,
    /// Whether a write was begun and has not returned: dropped in the middle, it leaves half a line.
    mid_write: bool,
    /// Whether the part has its size, and ends with the line that is being written.
    part_is_full: bool,
    part_records: u64,
    parts: Vec<PartInfo>,
    lines: u64,
}

/// Who has the part that is being made.
enum Compressor {
    Idle(Part),
    Busy(JoinHandle<io::Result<(Part, Vec<u8>)>>),
    /// A write failed: what was in memory is lost, and the attempt with it.
    Broken,
}

/// A part that gets no more lines.
struct UnsealedPart {
    name: String,
    path: Path,
    /// How errors call it.
    shown: String,
    part: Part,
    rest: Vec<u8>,
    records: u64,
}

impl UnsealedPart {
    /// Slow: for a blocking thread.
    fn seal(self) -> Result<(Object, PartInfo), Error> {
        let Self { name, path, shown, part, rest, records } = self;
        let sealed = part.seal(&rest).map_err(|error| Error::file("compress", shown, error))?;
        let object = Object { path, bytes: sealed.compressed, digest: sealed.sha256 };
        let info =
            PartInfo { name, records, bytes: sealed.bytes, compressed_bytes: object.size(), sha256: object.digest };
        Ok((object, info))
    }
}

impl std::fmt::Debug for RawWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawWriter({}, {} parts)", self.place.name(&self.dir), self.parts.len())
    }
}

impl RawWriter {
    pub(super) fn new(place: Place, header: RunHeader, part_bytes: usize, memory: MemoryBudget) -> Self {
        let dir = layout::run(&place.base, &header.key, header.run_id);
        Self {
            place,
            dir,
            header,
            part_bytes,
            memory,
            share: None,
            chunk: Vec::new(),
            compressor: Compressor::Idle(Part::new()),
            mid_write: false,
            part_is_full: false,
            part_records: 0,
            parts: Vec::new(),
            lines: 0,
        }
    }

    /// Appends one line, byte for byte, and a newline. Returns soon except when a chunk or a part is full.
    pub async fn write_line(&mut self, line: &[u8]) -> Result<(), Error> {
        let why = match line {
            [] => Some("is empty"),
            line if memchr(b'\n', line).is_some() => Some("holds a newline"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(self.bad_line(self.lines + 1, why));
        }
        self.begin_write()?;
        self.append(line).await?;
        self.append(b"\n").await?;
        self.end_write(1).await
    }

    /// Appends many lines at once, each ended by its newline: the fast way.
    pub async fn write_lines(&mut self, block: &[u8]) -> Result<(), Error> {
        if block.is_empty() {
            return Ok(());
        }
        let records = count::of(memchr_iter(b'\n', block).count());
        if block.last() != Some(&b'\n') {
            return Err(self.bad_line(self.lines + records + 1, "has no newline"));
        }
        if block.first() == Some(&b'\n') || memmem::find(block, b"\n\n").is_some() {
            return Err(self.bad_line(self.lines + 1, "or one after it is empty"));
        }
        self.begin_write()?;
        self.append(block).await?;
        self.end_write(records).await
    }

    async fn append(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (fits, rest) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(fits);
            bytes = rest;
            if self.chunk.len() == CHUNK {
                self.hand_over().await?;
            }
        }
        Ok(())
    }

    fn begin_write(&mut self) -> Result<(), Error> {
        if self.is_broken() {
            return Err(self.interrupted());
        }
        self.mid_write = true;
        Ok(())
    }

    async fn end_write(&mut self, records: u64) -> Result<(), Error> {
        self.part_records += records;
        self.lines += records;
        if self.part_is_full {
            self.close_part().await?;
        }
        self.mid_write = false;
        Ok(())
    }

    fn is_broken(&self) -> bool {
        self.mid_write || matches!(self.compressor, Compressor::Broken)
    }

    /// Puts what is left, then the manifest; when this returns, all of it is durable. An attempt that failed may be
    /// finished even after a write went wrong: its manifest lists the parts that were put.
    pub async fn finish(mut self, outcome: RunOutcome, finished_at: Timestamp) -> Result<Manifest, Error> {
        let rest = match (self.is_broken(), &outcome) {
            (false, _) if self.part_records == 0 => None,
            (false, _) => Some(self.take_part().await?),
            (true, RunOutcome::Failed { .. }) => None,
            (true, RunOutcome::Complete) => return Err(self.interrupted()),
        };
        let Self { place, dir, header, mut parts, .. } = self;
        let before = if parts.is_empty() { Before::Nothing } else { Before::Something };
        put::commit(&place, before, move || {
            let mut objects = Vec::new();
            if let Some(rest) = rest {
                let (object, info) = rest.seal()?;
                objects.push(object);
                parts.push(info);
            }
            let manifest = Manifest::new(header, parts, outcome, finished_at);
            let bytes = Bytes::from(manifest.to_json());
            let digest = Sha256::of(&bytes);
            objects.push(Object { path: layout::object(&dir, layout::MANIFEST), bytes, digest });
            Ok((objects, manifest))
        })
        .await
    }

    /// Whether all that was written so far is in memory, in one chunk.
    pub fn is_short(&self) -> bool {
        self.parts.is_empty() && matches!(&self.compressor, Compressor::Idle(part) if part.is_empty())
    }

    /// Lines taken so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Gives the full chunk to the compressor, once the one before is done.
    async fn hand_over(&mut self) -> Result<(), Error> {
        let (mut part, spare) = self.idle().await?;
        let share = self.share.get_or_insert_with(|| self.memory.share());
        self.part_is_full = part.expected(self.chunk.len()) >= self.part_bytes.min(share.bytes());
        let chunk = std::mem::replace(&mut self.chunk, spare);
        self.compressor = Compressor::Busy(tokio::task::spawn_blocking(move || {
            part.compress(&chunk)?;
            Ok((part, chunk))
        }));
        Ok(())
    }

    /// Waits for the compressor; gives the part, and a buffer to use again. The compressor is broken until it is given
    /// another part.
    async fn idle(&mut self) -> Result<(Part, Vec<u8>), Error> {
        let compressed = match &mut self.compressor {
            Compressor::Busy(busy) => busy.await.map_err(io::Error::other).flatten(),
            Compressor::Idle(_) | Compressor::Broken => Err(io::Error::other("idle")),
        };
        match (std::mem::replace(&mut self.compressor, Compressor::Broken), compressed) {
            (Compressor::Busy(_), Ok((part, mut spare))) => {
                spare.clear();
                Ok((part, spare))
            }
            (Compressor::Busy(_), Err(error)) => Err(Error::file("compress", self.place.name(&self.dir), error)),
            (Compressor::Idle(part), _) => Ok((part, Vec::new())),
            (Compressor::Broken, _) => Err(self.interrupted()),
        }
    }

    async fn close_part(&mut self) -> Result<(), Error> {
        let part = self.take_part().await?;
        let info = put::put(&self.place, move || part.seal()).await?;
        self.parts.push(info);
        (self.part_records, self.part_is_full) = (0, false);
        self.compressor = Compressor::Idle(Part::new());
        Ok(())
    }

    /// Takes the part that is being made, with the bytes that are not compressed yet.
    async fn take_part(&mut self) -> Result<UnsealedPart, Error> {
        let name = layout::part_name(self.parts.len());
        let path = layout::object(&self.dir, &name);
        let (part, spare) = self.idle().await?;
        let rest = std::mem::replace(&mut self.chunk, spare);
        Ok(UnsealedPart { shown: self.place.name(&path), name, path, part, rest, records: self.part_records })
    }

    fn bad_line(&self, number: u64, why: &'static str) -> Error {
        Error::Line { number, object: self.place.name(&self.dir), why }
    }

    fn interrupted(&self) -> Error {
        Error::Interrupted { object: self.place.name(&self.dir) }
    }
}
