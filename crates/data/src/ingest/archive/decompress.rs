//! Opens the four decompressors, each with a bound on its memory.

use std::io::{self, BufReader, Read};

use liblzma::stream::{CONCATENATED, Stream};

use super::error::{Reason, Refusal};

/// The four ways to compress one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

/// What a decompressor may take for its window. The outermost one opens all that the usual tools make by default or with
/// `-9`; inner ones are smaller, because they run at the same time.
struct Window {
    xz_bytes: u64,
    zstd_log: u32,
}

const OUTERMOST: Window = Window { xz_bytes: 72 << 20, zstd_log: 26 };
const INNER: Window = Window { xz_bytes: 20 << 20, zstd_log: 24 };

const BUFFER: usize = 64 << 10;

/// Opens a decompressor; `depth` counts the archives around it.
pub(super) fn open<'r>(compression: Compression, reader: impl Read + 'r, depth: u32) -> io::Result<Box<dyn Read + 'r>> {
    let window = if depth == 0 { OUTERMOST } else { INNER };
    let reader = BufReader::with_capacity(BUFFER, reader);
    Ok(match compression {
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
        Compression::Xz => {
            let stream = Stream::new_stream_decoder(window.xz_bytes, CONCATENATED).map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(reader, stream))
        }
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
            decoder.window_log_max(window.zstd_log)?;
            Box::new(decoder)
        }
    })
}

/// Refuses data that cannot be unpacked: as beyond a limit where the decompressor wants too much memory, otherwise as
/// malformed.
pub(super) fn blame(message: &str, error: io::Error) -> Refusal {
    let by_xz = error.get_ref().and_then(|inner| inner.downcast_ref::<liblzma::stream::Error>());
    let wants_memory = matches!(by_xz, Some(liblzma::stream::Error::MemLimit))
        // zstd gives its reason only as text.
        || error.get_ref().is_some_and(|inner| inner.to_string().contains("too much memory"));
    if wants_memory {
        let message = "the data was compressed with a window too large to be unpacked; compress it with a lower level";
        return Refusal::new(Reason::LimitExceeded, message).caused_by(error);
    }
    Refusal::new(Reason::MalformedArchive, message).caused_by(error)
}
