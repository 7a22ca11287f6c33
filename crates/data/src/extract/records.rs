//! Where an extractor puts what it brings.

use std::collections::BTreeMap;

use memchr::memchr_iter;
use redrive_core::count;
use redrive_core::time::Timestamp;
use redrive_store::raw::{Manifest, RawWriter, RunOutcome};
use serde_json::Value;

use super::json_stream::{Fault, RecordStream};
use super::{Error, Failure};

/// The longest record, so that memory stays bounded whatever a source sends.
pub const MAX_RECORD_BYTES: usize = 4 << 20;

/// The most that an attempt may bring unless its source says otherwise, so that an endless answer ends before the disk does.
pub const MAX_BYTES: u64 = 10 << 30;

/// The records of one attempt, on their way into the raw sink.
#[derive(Debug)]
pub struct Records {
    writer: RawWriter,
    bytes: u64,
    max_bytes: u64,
    notes: BTreeMap<&'static str, Value>,
}

impl Records {
    pub fn new(writer: RawWriter) -> Self {
        Self { writer, bytes: 0, max_bytes: MAX_BYTES, notes: BTreeMap::new() }
    }

    /// With another limit on what all records together have.
    #[must_use]
    pub fn limited_to(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// Takes one record: JSON on one line, kept byte for byte. A blank line is none.
    pub async fn record(&mut self, line: &[u8]) -> Result<(), Error> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.check_length(line.len())?;
        self.count_bytes(line.len())?;
        Ok(self.writer.write_line(line).await?)
    }

    /// Takes whole lines at once, each ended by a newline: the fast way for what comes as lines. Blank ones are none.
    pub async fn lines(&mut self, block: &[u8]) -> Result<(), Error> {
        if !has_blank_lines(block) && block.len() <= MAX_RECORD_BYTES && block.ends_with(b"\n") {
            self.count_bytes(block.len())?;
            return Ok(self.writer.write_lines(block).await?);
        }
        for line in block.split(|&byte| byte == b'\n') {
            self.record(line).await?;
        }
        Ok(())
    }

    /// Takes the records out of one chunk of the answer called `name`.
    pub(super) async fn feed(&mut self, stream: &mut RecordStream, mut chunk: &[u8], name: &str) -> Result<(), Error> {
        loop {
            match stream.next(&mut chunk) {
                Ok(Some(record)) => self.record(record).await?,
                Ok(None) => return Ok(()),
                Err(fault) => return Err(self.unusable(&fault, name)),
            }
        }
    }

    pub(super) fn unusable(&self, fault: &Fault, name: &str) -> Error {
        if let Fault::LongRecord { bytes } = fault
            && let Err(error) = self.check_length(*bytes)
        {
            return error;
        }
        Failure::retryable(format!("{name}: the answer cannot be used: {fault}")).into()
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

    /// Fails when all records together are more than an attempt may bring.
    fn count_bytes(&mut self, more: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(count::of(more));
        if self.bytes <= self.max_bytes {
            return Ok(());
        }
        let (limit, number) = (self.max_bytes, self.count() + 1);
        let why = format!(
            "record {number} brings it to more than {limit} bytes; raise max_bytes of the source if all of that is wanted"
        );
        Err(Failure::fatal(why).into())
    }

    /// How many records have come so far.
    pub fn count(&self) -> u64 {
        self.writer.lines()
    }

    /// Whether all that has come is a short text in memory.
    pub(super) fn is_short(&self) -> bool {
        self.writer.is_short()
    }

    /// Keeps something worth knowing with the run, such as the source's name for the request.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.notes.insert(name, value.into());
    }

    /// Commits the attempt's directory; gives its manifest and the notes.
    pub async fn finish(
        self,
        outcome: RunOutcome,
        at: Timestamp,
    ) -> Result<(Manifest, BTreeMap<&'static str, Value>), redrive_store::raw::Error> {
        Ok((self.writer.finish(outcome, at).await?, self.notes))
    }
}

/// Whether some line may be blank; says yes too often rather than too seldom.
fn has_blank_lines(block: &[u8]) -> bool {
    let blank = |byte: &u8| matches!(byte, b'\n' | b'\r' | b' ' | b'\t');
    block.first().is_some_and(blank) || memchr_iter(b'\n', block).any(|end| block.get(end + 1).is_some_and(blank))
}
