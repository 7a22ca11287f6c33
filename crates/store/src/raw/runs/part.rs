//! One part on its way: chunks are compressed as they are filled, and the sealed part is what goes into the sink. Memory
//! is the compressed bytes so far and the encoder, however long the lines are.

use std::io::{self, Write as _};

use bytes::Bytes;
use redrive_core::count;
use zstd::stream::write::Encoder;

use super::small;
use crate::raw::digest::Sha256;

pub(super) const LEVEL: i32 = 1;

pub(super) struct Part {
    /// None until the first chunk.
    encoder: Option<Encoder<'static, Vec<u8>>>,
    bytes: u64,
}

pub(super) struct Sealed {
    pub(super) compressed: Bytes,
    pub(super) sha256: Sha256,
    pub(super) bytes: u64,
}

impl Part {
    pub(super) fn new() -> Self {
        Self { encoder: None, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.encoder.is_none()
    }

    /// About how many compressed bytes there will be after `more` bytes: as many in proportion as so far.
    pub(super) fn expected(&self, more: usize) -> usize {
        let so_far = self.encoder.as_ref().map_or(0, |encoder| encoder.get_ref().len());
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX).max(1);
        so_far + (so_far.saturating_mul(more) / bytes).max(1)
    }

    /// Slow: for a blocking thread.
    pub(super) fn compress(&mut self, chunk: &[u8]) -> io::Result<()> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => self.encoder.insert(Encoder::new(Vec::new(), LEVEL)?),
        };
        encoder.write_all(chunk)?;
        self.bytes += count::of(chunk.len());
        Ok(())
    }

    /// Compresses the last bytes and closes the part. Slow: for a blocking thread.
    pub(super) fn seal(mut self, rest: &[u8]) -> io::Result<Sealed> {
        let compressed = if self.encoder.is_some() {
            self.compress(rest)?;
            self.encoder.map(Encoder::finish).transpose()?.unwrap_or_default()
        } else {
            self.bytes = count::of(rest.len());
            small::compress(rest)?
        };
        let sha256 = Sha256::of(&compressed);
        Ok(Sealed { compressed: compressed.into(), sha256, bytes: self.bytes })
    }
}
