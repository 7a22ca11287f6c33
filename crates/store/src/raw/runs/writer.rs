//! Writing one attempt: lines in, parts out, the manifest last. While one chunk is compressed, the next is filled.

use std::io;

use bytes::Bytes;
use memchr::{memchr, memchr_iter, memmem};
use object_store::path::Path;
use redrive_core::time::Timestamp;
use tokio::task::JoinHandle;

use super::layout;
use super::manifest::{FORMAT, Manifest, PartInfo, RunOutcome};
use super::part::Part;
use super::sink::RunHeader;
use crate::raw::cause;
use crate::raw::digest::Sha256;
use crate::raw::error::Error;
use crate::raw::place::{Place, blocking};
use crate::raw::put;

/// How much is gathered before it is compressed on a blocking thread: about a millisecond of work.
const CHUNK: usize = 1 << 20;

/// One attempt's directory while it is written. Dropping the writer leaves the directory without a manifest, which is
/// how an attempt that died looks.
pub struct RawWriter {
    place: Place,
    dir: Path,
    header: RunHeader,
    part_bytes: usize,
    /// Filled here, while the chunk before it is compressed elsewhere.
    chunk: Vec<u8>,
    press: Press,
    /// Whether a write was begun and has not returned: dropped in the middle, it leaves half a line.
    mid_write: bool,
    /// Whether the part has its size, and ends with the line that is being written.
    part_is_full: bool,
    part_records: u64,
    parts: Vec<PartInfo>,
    lines: u64,
}

/// Who has the part that is being made.
enum Press {
    Idle(Part),
    Busy(JoinHandle<io::Result<(Part, Vec<u8>)>>),
    /// A write failed: what was in memory is lost, and the attempt with it.
    Broken,
}

impl std::fmt::Debug for RawWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawWriter({}, {} parts)", self.place.name(&self.dir), self.parts.len())
    }
}

impl RawWriter {
    pub(super) fn new(place: Place, header: RunHeader, part_bytes: usize) -> Self {
        let dir = layout::run(&place.base, &header.key, header.run_id);
        Self {
            place,
            dir,
            header,
            part_bytes,
            chunk: Vec::new(),
            press: Press::Idle(Part::new()),
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
        let records = u64::try_from(memchr_iter(b'\n', block).count()).unwrap_or(u64::MAX);
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
        self.mid_write || matches!(self.press, Press::Broken)
    }

    /// Puts what is left, then the manifest; when this returns, all of it is durable. An attempt that failed may be
    /// finished even after a write went wrong: its manifest lists the parts that were put.
    pub async fn finish(mut self, outcome: RunOutcome, finished_at: Timestamp) -> Result<Manifest, Error> {
        match (self.is_broken(), &outcome) {
            (false, _) if self.part_records == 0 => {}
            (false, _) => self.close_part().await?,
            (true, RunOutcome::Failed { .. }) => {}
            (true, RunOutcome::Complete) => return Err(self.interrupted()),
        }
        let manifest = Manifest {
            format: FORMAT,
            key: self.header.key,
            run_id: self.header.run_id,
            fence: self.header.fence,
            extractor: self.header.extractor,
            started_at: self.header.started_at,
            finished_at,
            outcome,
            records: self.parts.iter().map(|part| part.records).sum(),
            bytes: self.parts.iter().map(|part| part.bytes).sum(),
            parts: self.parts,
        };
        let json = Bytes::from(manifest.to_json());
        let digest = Sha256::of(&json);
        put::create(&self.place, &layout::object(&self.dir, layout::MANIFEST), json, &digest).await?;
        self.place.settle_directories(&self.dir).await?;
        Ok(manifest)
    }

    /// Lines taken so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes of memory that the buffers hold; those of a chunk that is being compressed are not counted.
    pub fn buffered(&self) -> usize {
        let part = match &self.press {
            Press::Idle(part) => part.capacity(),
            Press::Busy(_) | Press::Broken => 0,
        };
        self.chunk.capacity() + part
    }

    /// Gives the full chunk to the press, once the one before is done.
    async fn hand_over(&mut self) -> Result<(), Error> {
        let (mut part, spare) = self.idle().await?;
        self.part_is_full = part.expected(self.chunk.len()) >= self.part_bytes;
        let chunk = std::mem::replace(&mut self.chunk, spare);
        self.press = Press::Busy(tokio::task::spawn_blocking(move || {
            part.compress(&chunk)?;
            Ok((part, chunk))
        }));
        Ok(())
    }

    /// Waits for the press; gives the part, and a buffer to use again. The press is broken until it is given another.
    async fn idle(&mut self) -> Result<(Part, Vec<u8>), Error> {
        let pressed = match &mut self.press {
            Press::Busy(pressing) => pressing.await.map_err(io::Error::other).flatten(),
            Press::Idle(_) | Press::Broken => Err(io::Error::other("idle")),
        };
        match (std::mem::replace(&mut self.press, Press::Broken), pressed) {
            (Press::Busy(_), Ok((part, mut spare))) => {
                spare.clear();
                Ok((part, spare))
            }
            (Press::Busy(_), Err(error)) => Err(cause::file("compress", self.place.name(&self.dir), error)),
            (Press::Idle(part), _) => Ok((part, Vec::new())),
            (Press::Broken, _) => Err(self.interrupted()),
        }
    }

    async fn close_part(&mut self) -> Result<(), Error> {
        let name = layout::part_name(self.parts.len());
        let path = layout::object(&self.dir, &name);
        let (mut part, spare) = self.idle().await?;
        let chunk = std::mem::replace(&mut self.chunk, spare);
        let sealed = blocking(move || {
            part.compress(&chunk)?;
            part.seal()
        });
        let sealed = sealed.await.map_err(|error| cause::file("compress", self.place.name(&path), error))?;
        let info = PartInfo {
            name,
            records: self.part_records,
            bytes: sealed.bytes,
            compressed_bytes: u64::try_from(sealed.compressed.len()).unwrap_or(u64::MAX),
            sha256: sealed.sha256,
        };
        put::create(&self.place, &path, sealed.compressed, &sealed.sha256).await?;
        self.parts.push(info);
        (self.part_records, self.part_is_full) = (0, false);
        self.press = Press::Idle(Part::new());
        Ok(())
    }

    fn bad_line(&self, number: u64, why: &'static str) -> Error {
        Error::Line { number, object: self.place.name(&self.dir), why }
    }

    fn interrupted(&self) -> Error {
        Error::Interrupted { object: self.place.name(&self.dir) }
    }
}
