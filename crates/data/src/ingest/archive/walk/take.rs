//! Taking the bytes of a member, no more than may be held in memory.

use std::io::{self, Read};

use super::{Walk, damaged};
use crate::ingest::archive::error::{Error, Reason, Refusal};

const PROGRESS_STEP: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;

impl Walk<'_, '_> {
    pub(super) fn largest_file(&self) -> Bound {
        Bound { bytes: self.guard.limits.max_file_bytes, name: "max_file_bytes" }
    }

    /// Reads to the end, but not beyond a bound.
    pub fn take_whole(&mut self, reader: &mut dyn Read, max: Bound) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, reader, max)?;
        Ok(bytes)
    }

    pub(super) fn fill(&mut self, bytes: &mut Vec<u8>, reader: &mut dyn Read, bound: Bound) -> Result<(), Error> {
        let max = usize::try_from(bound.bytes).unwrap_or(usize::MAX);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = read_some(reader, &mut chunk).map_err(|error| self.guard.settle(|| damaged(error)))?;
            if count == 0 {
                return Ok(());
            }
            let room = max.saturating_sub(bytes.len());
            if count > room {
                return Err(bound.refusal().into());
            }
            if bytes.capacity() - bytes.len() < count {
                // Doubling would take up to twice the bound.
                bytes.reserve_exact(bytes.len().max(CHUNK).min(room));
            }
            bytes.extend_from_slice(&chunk[..count]);
            self.tell_progress();
        }
    }

    /// Reads to the end and forgets it.
    pub fn discard(&mut self, reader: &mut dyn Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        while read_some(reader, &mut chunk)? > 0 {
            self.tell_progress();
        }
        Ok(())
    }

    fn tell_progress(&mut self) {
        let now = self.guard.bytes_unpacked();
        if now.saturating_sub(self.told_at) >= PROGRESS_STEP {
            self.told_at = now;
            self.visitor.progress(self.progress());
        }
    }
}

fn read_some(reader: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// How much may be held in memory, and the name of that limit.
#[derive(Debug, Clone, Copy)]
pub(in crate::ingest::archive) struct Bound {
    pub bytes: u64,
    pub name: &'static str,
}

impl Bound {
    pub(super) fn refusal(self) -> Refusal {
        Refusal::new(Reason::LimitExceeded, format!("the file has more than {} bytes ({})", self.bytes, self.name))
    }
}
