//! An object of any size, read like a file with little of it in memory.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use sha2::Digest as _;

use super::blob::BlobInfo;
use super::digest::Sha256;
use super::error::{self, Damage, Error};
use super::files;
use super::place::Place;
use crate::blocking::blocking;

/// How much is asked for at once when an object on S3 is read.
const BLOCK: u64 = 2 << 20;

/// Why a [`BlobReader`] failed, for a caller to whom the error came through other hands.
#[derive(Debug, Clone, Default)]
pub struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    /// Gives the first failure, once.
    pub fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: Error) -> io::Error {
        let error_for_reader = io::Error::other(error.to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        error_for_reader
    }
}

/// An object that is read like a file, on a blocking thread. What is read of an object on S3 comes in blocks.
#[derive(Debug)]
pub struct BlobReader {
    from: From,
    name: String,
    size: u64,
    at: u64,
    failure: Failure,
}

#[derive(Debug)]
enum From {
    File(std::fs::File),
    S3 { place: Place, path: Path, runtime: tokio::runtime::Handle, block: Bytes, block_at: u64 },
}

impl BlobReader {
    /// Opens an object; none when it is not there.
    pub(super) async fn open(place: &Place, path: Path) -> Result<Option<Self>, Error> {
        let (name, failure) = (place.name(&path), Failure::default());
        if place.directories().is_some() {
            let place = place.clone();
            let opened = blocking(move || files::open(&place, &path)).await?;
            return Ok(opened.map(|(file, size)| Self { from: From::File(file), name, size, at: 0, failure }));
        }
        let size = match place.store.head(&path).await {
            Ok(meta) => meta.size,
            Err(error) if error::is_absent(&error) => return Ok(None),
            Err(error) => return Err(Error::storage("read", name, error)),
        };
        let runtime = tokio::runtime::Handle::current();
        let from = From::S3 { place: place.clone(), path, runtime, block: Bytes::new(), block_at: 0 };
        Ok(Some(Self { from, name, size, at: 0, failure }))
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Checks the whole object against what was stored, and goes back to its beginning. The reason of a failure is kept.
    pub fn check(&mut self, expected: &BlobInfo, cancelled: &AtomicBool) -> io::Result<()> {
        if self.size != expected.bytes {
            return Err(self.altered(format!("has {} bytes and had {}", self.size, expected.bytes)));
        }
        let (mut hasher, mut piece) = (sha2::Sha256::new(), vec![0; 256 << 10]);
        self.rewind()?;
        loop {
            if cancelled.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match self.read(&mut piece)? {
                0 => break,
                count => hasher.update(&piece[..count]),
            }
        }
        let found = Sha256::of_hasher(hasher);
        if found != expected.sha256 {
            return Err(self.altered(format!("has sha256 {found} and had {}", expected.sha256)));
        }
        self.rewind()
    }

    fn altered(&self, what: String) -> io::Error {
        self.failure.keep(Damage::Altered { object: self.name.clone(), what }.into())
    }

    /// Where the reason is kept when reading fails.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }
}

impl Read for BlobReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || self.at >= self.size {
            return Ok(0);
        }
        let read = match &mut self.from {
            From::File(file) => match file.read(out) {
                // Shorter than it was when it was opened.
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            }
            .map_err(|error| Error::file("read", self.name.clone(), error)),
            From::S3 { place, path, runtime, block, block_at } => {
                let skip = self.at.checked_sub(*block_at).and_then(|skip| usize::try_from(skip).ok());
                match skip.filter(|skip| *skip < block.len()) {
                    Some(skip) => Ok(copy(&block[skip..], out)),
                    None => {
                        let range = self.at..self.size.min(self.at + BLOCK);
                        runtime.block_on(place.store.get_range(path, range)).map(|bytes| {
                            (*block, *block_at) = (bytes, self.at);
                            copy(block, out)
                        })
                    }
                }
                .map_err(|error| match error::is_absent(&error) {
                    // It was there when it was opened; only a look at the sink tells whether more is missing.
                    true => not_there(self.name.clone()),
                    false => Error::storage("read", self.name.clone(), error),
                })
            }
        };
        let read = read.map_err(|error| self.failure.keep(error))?;
        self.at += redrive_core::count::of(read);
        Ok(read)
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let count = from.len().min(to.len());
    to[..count].copy_from_slice(&from[..count]);
    count
}

impl Seek for BlobReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a position before the beginning");
        let at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => self.size.checked_add_signed(by).ok_or_else(before)?,
            SeekFrom::Current(by) => self.at.checked_add_signed(by).ok_or_else(before)?,
        };
        if let From::File(file) = &mut self.from {
            let sought = file.seek(SeekFrom::Start(at));
            sought.map_err(|error| self.failure.keep(Error::file("read", self.name.clone(), error)))?;
        }
        self.at = at;
        Ok(at)
    }
}

/// What is said of an object that is not there.
pub(super) fn not_there(object: String) -> Error {
    Damage::Altered { object, what: "is not there".to_owned() }.into()
}
