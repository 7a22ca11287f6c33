//! Where an extractor puts what it brings.

use std::collections::BTreeMap;

use memchr::memchr;
use redrive_core::time::Timestamp;
use redrive_store::raw::{Manifest, Outcome, RawWriter};
use serde_json::Value;

use super::failure::{Error, Failure};

/// The longest record, so that memory stays bounded whatever a source sends.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// The records of one attempt, on their way into the raw sink.
#[derive(Debug)]
pub struct Records {
    writer: RawWriter,
    notes: BTreeMap<&'static str, Value>,
}

impl Records {
    pub fn new(writer: RawWriter) -> Self {
        Self { writer, notes: BTreeMap::new() }
    }

    /// Takes one record: JSON on one line, kept byte for byte. A blank line is none.
    pub async fn record(&mut self, line: &[u8]) -> Result<(), Error> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.check_length(line.len())?;
        Ok(self.writer.write_line(line).await?)
    }

    /// Takes whole lines at once, each ended by a newline: the fast way for what comes as lines.
    pub async fn lines(&mut self, mut block: &[u8]) -> Result<(), Error> {
        while !block.is_empty() {
            let end = memchr(b'\n', block).unwrap_or(block.len());
            self.record(&block[..end]).await?;
            block = block.get(end + 1..).unwrap_or_default();
        }
        Ok(())
    }

    /// Fails when a record would be longer than may be held in memory.
    pub fn check_length(&self, bytes: usize) -> Result<(), Error> {
        if bytes <= MAX_RECORD_BYTES {
            return Ok(());
        }
        let number = self.count() + 1;
        let limit = MAX_RECORD_BYTES >> 20;
        Err(Failure::fatal(format!("record {number} is longer than {limit} MiB; split it at the source")).into())
    }

    /// How many records have come so far.
    pub fn count(&self) -> u64 {
        self.writer.lines()
    }

    /// Keeps something worth knowing with the run, such as the source's name for the request.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.notes.insert(name, value.into());
    }

    /// Commits the attempt's directory; gives its manifest and the notes.
    pub async fn finish(
        self,
        outcome: Outcome,
        at: Timestamp,
    ) -> Result<(Manifest, BTreeMap<&'static str, Value>), redrive_store::raw::Error> {
        Ok((self.writer.finish(outcome, at).await?, self.notes))
    }
}
