//! Compresses small parts, and reads them back, with what a thread keeps for the next: to set up zstd takes longer than a few records.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::part::LEVEL;

/// The most bytes that are small. A thread keeps a few hundred KiB for parts of this length.
pub(super) const SMALL: usize = 64 << 10;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses a part as a whole: as its length is known, that takes no more memory than the part needs.
pub(super) fn compress(part: &[u8]) -> io::Result<Vec<u8>> {
    if part.len() > SMALL {
        return zstd::bulk::compress(part, LEVEL);
    }
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(part),
        None => kept.insert(Compressor::new(LEVEL)?).compress(part),
    })
}

/// Decompresses a part that should have so many bytes. None where it is not small, or is not as it should be: who reads it
/// from its beginning finds out why.
pub(super) fn decompress(compressed: &[u8], bytes: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= SMALL)?;
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new().ok()?),
        };
        decompressor.decompress(compressed, bytes).ok().filter(|part| part.len() == bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_whole_only_if_it_is_as_long_as_it_should_be() {
        for part in [&b"{}\n"[..], &[b'x'; SMALL]] {
            let (compressed, bytes) = (compress(part).unwrap(), part.len() as u64);
            assert_eq!(decompress(&compressed, bytes).as_deref(), Some(part));
            assert_eq!(decompress(&compressed, bytes - 1), None);
            assert_eq!(decompress(&compressed, bytes + 1), None);
            assert_eq!(decompress(b"no zstd", bytes), None, "and the next is read all the same");
        }
        let long = vec![b'x'; SMALL + 1];
        assert_eq!(decompress(&compress(&long).unwrap(), long.len() as u64), None);
    }
}
