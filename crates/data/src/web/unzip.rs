//! Answers that come compressed. All members of a gzip stream are read, and it must come to its end: the usual decoders
//! of HTTP libraries stop after the first member and take it for the whole.

use std::io::{self, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use redrive_core::count;

/// How many compressed bytes are decompressed before what came out is looked at. Deflate makes at most 1,032 bytes out of
/// one, so that half a megabyte is the most that comes at once.
const STEP: usize = 512;
/// Handed on as soon as so many bytes have come out.
const ENOUGH: usize = 64 << 10;
/// Short answers may be as repetitive as they like.
const FREE_OF_RATIO: u64 = 8 << 20;

/// What comes out of an answer's bytes.
#[derive(Debug)]
pub(super) struct Unzip {
    encoding: Encoding,
    max_ratio: u64,
    read: u64,
    unpacked: u64,
}

enum Encoding {
    /// The bytes are as they are.
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// The request did not ask for this encoding, and nothing comes out. What the head of the answer says still counts.
    Unknown(String),
}

/// Why nothing comes out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the answer cannot be decompressed: {0}")]
    Damaged(#[from] io::Error),
    #[error(
        "{read} bytes of the answer decompress to {unpacked}, more than {max_ratio} times as much; raise max_ratio if that is usual"
    )]
    Ratio { read: u64, unpacked: u64, max_ratio: u64 },
}

impl std::fmt::Debug for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Unknown(_) => "Unknown",
        })
    }
}

impl Unzip {
    pub(super) fn new(encoding: &str, max_ratio: u64) -> Self {
        let encoding = match encoding.trim() {
            "" => Encoding::Plain,
            name if name.eq_ignore_ascii_case("identity") => Encoding::Plain,
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                Encoding::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
            }
            name => Encoding::Unknown(name.to_owned()),
        };
        Self { encoding, max_ratio, read: 0, unpacked: 0 }
    }

    /// Takes some of a piece; what comes of it may be nothing yet. What is left of the piece is for the next call.
    pub(super) fn take(&mut self, piece: &mut Bytes) -> Result<Bytes, Error> {
        let decoder = match &mut self.encoding {
            Encoding::Plain => return Ok(std::mem::take(piece)),
            Encoding::Unknown(encoding) => return Err(unknown(encoding).into()),
            Encoding::Gzip(decoder) => decoder,
        };
        while !piece.is_empty() && decoder.get_ref().len() < ENOUGH {
            let step = piece.len().min(STEP);
            decoder.write_all(&piece[..step])?;
            piece.advance(step);
            self.read += count::of(step);
        }
        let bytes = std::mem::take(decoder.get_mut());
        self.pass(bytes)
    }

    /// What is left at the end; fails when the end came too early.
    pub(super) fn finish(&mut self) -> Result<Bytes, Error> {
        let decoder = match &mut self.encoding {
            Encoding::Plain => return Ok(Bytes::new()),
            Encoding::Unknown(encoding) => return Err(unknown(encoding).into()),
            Encoding::Gzip(decoder) => decoder,
        };
        decoder.try_finish()?;
        let bytes = std::mem::take(decoder.get_mut());
        self.pass(bytes)
    }

    fn pass(&mut self, bytes: Vec<u8>) -> Result<Bytes, Error> {
        self.unpacked += count::of(bytes.len());
        let Self { read, unpacked, max_ratio, .. } = *self;
        if unpacked > FREE_OF_RATIO && unpacked > read.saturating_mul(max_ratio) {
            return Err(Error::Ratio { read, unpacked, max_ratio });
        }
        Ok(bytes.into())
    }
}

fn unknown(encoding: &str) -> io::Error {
    io::Error::other(format!("it is encoded as {encoding:?}, and gzip was asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unzipped(bytes: &[u8], step: usize) -> Result<Vec<u8>, Error> {
        let mut unzip = Unzip::new("gzip", 200);
        let mut out = Vec::new();
        for piece in bytes.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            while !piece.is_empty() {
                out.extend(unzip.take(&mut piece)?);
            }
        }
        out.extend(unzip.finish()?);
        Ok(out)
    }

    #[test]
    fn every_member_is_read_however_the_bytes_come() {
        let both = [zipped(b"one\n"), zipped(b"two\n"), zipped(b"")].concat();
        for step in [1, 7, 1000] {
            assert_eq!(unzipped(&both, step).unwrap(), b"one\ntwo\n", "{step}");
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_an_error() {
        let whole = zipped(b"some text that is long enough to be cut");
        for end in [1, 9, whole.len() / 2, whole.len() - 1] {
            assert!(unzipped(&whole[..end], 5).is_err(), "{end}");
        }
        let mut damaged = whole.clone();
        let crc = damaged.len() - 6;
        damaged[crc] ^= 1;
        assert!(unzipped(&damaged, 5).is_err());
        assert!(unzipped(&[whole, b"garbage".to_vec()].concat(), 5).is_err());
    }

    #[test]
    fn a_bomb_comes_out_in_steps_and_only_up_to_the_ratio() {
        let bomb = Bytes::from(zipped(&vec![b' '; 64 << 20]));
        for (max_ratio, all) in [(200, false), (u64::MAX, true)] {
            let (mut unzip, mut piece, mut out) = (Unzip::new("gzip", max_ratio), bomb.clone(), 0);
            let ended = loop {
                match unzip.take(&mut piece) {
                    Ok(bytes) if piece.is_empty() && bytes.is_empty() => break Ok(()),
                    Ok(bytes) => {
                        assert!(bytes.len() <= ENOUGH + STEP * 1032 + (64 << 10), "{} at once", bytes.len());
                        out += bytes.len();
                    }
                    Err(error) => break Err(error),
                }
            };
            assert_eq!(ended.is_ok(), all, "{ended:?}");
            if all {
                assert_eq!(out + unzip.finish().unwrap().len(), 64 << 20);
            } else {
                assert!(matches!(ended, Err(Error::Ratio { max_ratio: 200, .. })), "{ended:?}");
                assert!(out <= 17 << 20, "{out} came out");
            }
        }
    }

    #[test]
    fn nothing_comes_out_of_an_encoding_that_nobody_asked_for() {
        for encoding in ["br", "zstd", "deflate", "gzip, gzip", "?"] {
            let mut unzip = Unzip::new(encoding, 200);
            assert!(unzip.take(&mut Bytes::from_static(b"[]")).is_err(), "{encoding}");
            assert!(unzip.finish().is_err(), "{encoding}");
        }
        for encoding in ["", "Identity", " identity "] {
            assert!(matches!(Unzip::new(encoding, 200).encoding, Encoding::Plain), "{encoding}");
        }
    }
}
