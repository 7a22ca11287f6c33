//! Writing one attempt: lines in, parts out, the manifest last.

use bytes::Bytes;
use object_store::path::Path;
use redrive_core::time::Timestamp;

use super::cause;
use super::digest::Sha256;
use super::error::Error;
use super::layout;
use super::manifest::{FORMAT, Manifest, Outcome, PartInfo};
use super::part::Part;
use super::place::{Place, blocking};
use super::put;
use super::sink::Attempt;

/// One attempt's directory while it is written. Dropping the writer leaves the directory without a manifest, which is
/// how an attempt that died looks.
pub struct RawWriter {
    place: Place,
    dir: Path,
    attempt: Attempt,
    part_bytes: usize,
    /// None after a write failed or its future was dropped: what was in memory then is lost, and the attempt with it.
    part: Option<Part>,
    parts: Vec<PartInfo>,
    lines: u64,
}

impl std::fmt::Debug for RawWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawWriter({}, {} parts)", self.place.name(&self.dir), self.parts.len())
    }
}

impl RawWriter {
    pub(super) fn new(place: Place, attempt: Attempt, part_bytes: usize) -> Self {
        let dir = layout::run(&place.base, &attempt.key, attempt.run_id);
        Self { place, dir, attempt, part_bytes, part: Some(Part::new()), parts: Vec::new(), lines: 0 }
    }

    /// Appends one line, byte for byte, and a newline. Returns soon except when a chunk or a part is full.
    pub async fn write_line(&mut self, line: &[u8]) -> Result<(), Error> {
        self.check_line(line)?;
        for mut rest in [line, b"\n"] {
            while !rest.is_empty() {
                let Some(part) = &mut self.part else { return Err(self.interrupted()) };
                rest = part.fill(rest);
                if part.is_full() {
                    self.compress().await?;
                }
            }
        }
        let Some(part) = &mut self.part else { return Err(self.interrupted()) };
        part.end_record();
        self.lines += 1;
        if part.compressed() >= self.part_bytes {
            self.close_part().await?;
        }
        Ok(())
    }

    /// Puts what is left, then the manifest; when this returns, all of it is durable. An attempt that failed may be
    /// finished even after a write went wrong: its manifest lists the parts that were put.
    pub async fn finish(mut self, outcome: Outcome, finished_at: Timestamp) -> Result<Manifest, Error> {
        match (&self.part, &outcome) {
            (Some(part), _) if part.is_empty() => {}
            (Some(_), _) => self.close_part().await?,
            (None, Outcome::Failed { .. }) => {}
            (None, Outcome::Complete) => return Err(self.interrupted()),
        }
        let manifest = Manifest {
            format: FORMAT,
            key: self.attempt.key,
            run_id: self.attempt.run_id,
            fence: self.attempt.fence,
            extractor: self.attempt.extractor,
            started_at: self.attempt.started_at,
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

    /// Bytes of memory that the buffers hold.
    pub fn buffered(&self) -> usize {
        self.part.as_ref().map_or(0, Part::capacity)
    }

    fn check_line(&self, line: &[u8]) -> Result<(), Error> {
        let why = match line {
            [] => "is empty",
            line if line.contains(&b'\n') => "holds a newline",
            _ => return Ok(()),
        };
        Err(Error::Line { number: self.lines + 1, object: self.place.name(&self.dir), why })
    }

    async fn compress(&mut self) -> Result<(), Error> {
        let part = self.part.take().ok_or_else(|| self.interrupted())?;
        let compressed = blocking(move || part.compress()).await;
        self.part = Some(compressed.map_err(|error| cause::file("compress", self.place.name(&self.dir), error))?);
        Ok(())
    }

    async fn close_part(&mut self) -> Result<(), Error> {
        let part = self.part.take().ok_or_else(|| self.interrupted())?;
        let name = layout::part_name(self.parts.len());
        let path = layout::object(&self.dir, &name);
        let sealed = blocking(move || part.seal()).await;
        let (sealed, next) = sealed.map_err(|error| cause::file("compress", self.place.name(&path), error))?;
        let info = PartInfo {
            name,
            records: sealed.records,
            bytes: sealed.bytes,
            compressed_bytes: u64::try_from(sealed.compressed.len()).unwrap_or(u64::MAX),
            sha256: sealed.sha256,
        };
        put::create(&self.place, &path, sealed.compressed, &sealed.sha256).await?;
        self.parts.push(info);
        self.part = Some(next);
        Ok(())
    }

    fn interrupted(&self) -> Error {
        Error::Interrupted { object: self.place.name(&self.dir) }
    }
}
