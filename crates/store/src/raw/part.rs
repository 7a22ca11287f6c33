//! One part on its way: lines are gathered into a chunk, full chunks are compressed, and the sealed part is what goes
//! into the sink. Memory is one chunk and the compressed bytes so far, however long the lines are.

use std::io::{self, Write as _};

use bytes::Bytes;
use zstd::stream::write::Encoder;

use super::digest::Sha256;

/// How much is gathered before it is compressed on a blocking thread: about a millisecond of work.
pub(super) const CHUNK: usize = 1 << 20;
const LEVEL: i32 = 1;

pub(super) struct Part {
    chunk: Vec<u8>,
    /// None until the first chunk is full or the part is sealed.
    encoder: Option<Encoder<'static, Vec<u8>>>,
    records: u64,
    bytes: u64,
}

pub(super) struct Sealed {
    pub(super) compressed: Bytes,
    pub(super) sha256: Sha256,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Part {
    pub(super) fn new() -> Self {
        Self { chunk: Vec::new(), encoder: None, records: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes what fits into the chunk and returns the rest.
    pub(super) fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (fits, rest) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
        self.chunk.extend_from_slice(fits);
        self.bytes += u64::try_from(fits.len()).unwrap_or(u64::MAX);
        rest
    }

    pub(super) fn is_full(&self) -> bool {
        self.chunk.len() == CHUNK
    }

    pub(super) fn end_record(&mut self) {
        self.records += 1;
    }

    /// What compression has given so far; up to a few hundred KiB more are inside the encoder.
    pub(super) fn compressed(&self) -> usize {
        self.encoder.as_ref().map_or(0, |encoder| encoder.get_ref().len())
    }

    /// Everything this part holds in memory.
    pub(super) fn capacity(&self) -> usize {
        self.chunk.capacity() + self.encoder.as_ref().map_or(0, |encoder| encoder.get_ref().capacity())
    }

    /// Slow: for a blocking thread.
    pub(super) fn compress(mut self) -> io::Result<Self> {
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(Vec::new(), LEVEL)?,
        };
        encoder.write_all(&self.chunk)?;
        self.chunk.clear();
        self.encoder = Some(encoder);
        Ok(self)
    }

    /// Slow: for a blocking thread. Gives the empty chunk back for the next part.
    pub(super) fn seal(self) -> io::Result<(Sealed, Self)> {
        let Self { chunk, encoder, records, bytes } = self.compress()?;
        let compressed = encoder.map(Encoder::finish).transpose()?.unwrap_or_default();
        let sha256 = Sha256::of(&compressed);
        let sealed = Sealed { compressed: compressed.into(), sha256, records, bytes };
        Ok((sealed, Self { chunk, ..Self::new() }))
    }
}
