//! Answers that come compressed. All members of a gzip stream are read, and it must come to its end: the usual decoders
//! of HTTP libraries stop after the first member and take it for the whole.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// What comes out of an answer's bytes.
pub(super) enum Unzip {
    /// They are as they are.
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// The request did not ask for this encoding, and nothing comes out. What the head of the answer says still counts.
    Unknown(String),
}

impl std::fmt::Debug for Unzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Unknown(_) => "Unknown",
        })
    }
}

impl Unzip {
    pub(super) fn new(encoding: &str) -> Self {
        match encoding.trim() {
            "" => Self::Plain,
            name if name.eq_ignore_ascii_case("identity") => Self::Plain,
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
            }
            name => Self::Unknown(name.to_owned()),
        }
    }

    /// Takes a piece; what comes of it may be nothing yet.
    pub(super) fn take(&mut self, piece: Bytes) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(piece),
            Self::Gzip(decoder) => {
                decoder.write_all(&piece)?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Unknown(encoding) => Err(unknown(encoding)),
        }
    }

    /// What is left at the end; fails when the end came too early.
    pub(super) fn finish(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(Bytes::new()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Unknown(encoding) => Err(unknown(encoding)),
        }
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

    fn unzipped(bytes: &[u8], step: usize) -> io::Result<Vec<u8>> {
        let mut unzip = Unzip::new("gzip");
        let mut out = Vec::new();
        for piece in bytes.chunks(step) {
            out.extend(unzip.take(Bytes::copy_from_slice(piece))?);
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
    fn nothing_comes_out_of_an_encoding_that_nobody_asked_for() {
        for encoding in ["br", "gzip, gzip", "?"] {
            let mut unzip = Unzip::new(encoding);
            assert!(unzip.take(Bytes::from_static(b"[]")).is_err(), "{encoding}");
            assert!(unzip.finish().is_err(), "{encoding}");
        }
        for encoding in ["", "Identity", " identity "] {
            assert!(matches!(Unzip::new(encoding), Unzip::Plain), "{encoding}");
        }
    }
}
