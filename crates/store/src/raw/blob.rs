//! Objects of any kind and any size: written from a stream and read as a file, with little of them in memory.
//!
//! An object is created once and never changed. On a file system it appears whole and durable under its name. On S3 a
//! small one is created if absent; a large one is made of parts, for which S3 knows no such condition through this
//! client, so that the caller must choose names that nobody else chooses.

use std::io::{self, Write as _};
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use sha2::Digest as _;
use tokio::sync::mpsc;

use super::blob_reader::{BlobReader, not_there};
use super::digest::Sha256;
use super::error::Error;
use super::files::Staged;
use super::marker;
use super::place::Place;
use super::put::{self, Object};
use super::s3::S3Options;
use super::sync::Directory;
use super::url::RawUrl;
use crate::blocking::blocking;

/// How large a part on S3 is; a smaller object is put whole.
const PART: usize = 8 << 20;
/// How many parts of one object may be on their way at once.
const PARTS_AT_ONCE: usize = 2;
/// How many pieces of the body may wait for a slow disk.
const WAITING: usize = 4;

/// A handle for objects of any kind.
#[derive(Debug, Clone)]
pub struct Blobs {
    place: Place,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    pub bytes: u64,
    pub sha256: Sha256,
}

/// Why an object was not written. Nothing is left under its name.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error(transparent)]
    Sink(#[from] Error),
    #[error("cannot read what is to be stored: {0}")]
    Body(io::Error),
    #[error("it has more than {max} bytes, which is the limit")]
    TooLarge { max: u64 },
}

impl Blobs {
    /// Opens the sink to write; fails now when it cannot be written.
    pub async fn open(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        Ok(Self { place: Place::open_to_write(url, options).await? })
    }

    /// Opens the sink to read.
    pub async fn open_to_read(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        Ok(Self { place: Place::open_to_read(url, options).await? })
    }

    pub(super) fn new(place: Place) -> Self {
        Self { place }
    }

    /// Whether the sink is still the one that the database knows.
    pub async fn check_marker(&self) -> Result<(), Error> {
        self.place.check_marker().await
    }

    /// Removes what an uploader that is gone left of an object; gives how many files.
    pub async fn clear_staged(&self, object: &str) -> Result<usize, Error> {
        self.place.clear_staged_beside(&self.path(object)).await
    }

    /// Whether the sink can be written now.
    pub async fn check(&self) -> Result<(), Error> {
        self.place.check().await
    }

    /// Whether the sink as a whole is to blame for an error: no object can be had, or none could be had then.
    pub async fn is_down(&self, error: &Error) -> bool {
        self.place.is_down(error).await
    }

    fn path(&self, object: &str) -> Path {
        object.split('/').fold(self.place.base.clone(), |path, part| path.join(part))
    }

    /// Writes an object of at most `max` bytes from a stream. It is durable when this returns.
    pub async fn put(
        &self,
        object: &str,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
        max: u64,
    ) -> Result<BlobInfo, BlobError> {
        let mut body = Body { stream: pin!(body), max, bytes: 0, hasher: sha2::Sha256::new() };
        match self.place.directories() {
            Some(_) => self.put_file(self.path(object), &mut body).await,
            None => self.put_s3(self.path(object), &mut body).await,
        }
    }

    async fn put_file<S: Stream<Item = io::Result<Bytes>> + Unpin>(
        &self,
        path: Path,
        body: &mut Body<S>,
    ) -> Result<BlobInfo, BlobError> {
        let (pieces, inbox) = mpsc::channel(WAITING);
        let place = self.place.clone();
        let writing = tokio::spawn(blocking(move || write_file(&place, &path, inbox)));
        let sent = loop {
            match body.next().await {
                Ok(Some(piece)) => {
                    if pieces.send(Piece::Bytes(piece)).await.is_err() {
                        // The disk refused; its reason comes below.
                        break Ok(());
                    }
                }
                Ok(None) => {
                    let _ = pieces.send(Piece::End).await;
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        drop(pieces);
        let written = writing.await.unwrap_or_else(|stopped| std::panic::resume_unwind(stopped.into_panic()));
        sent?;
        written?;
        Ok(body.info())
    }

    async fn put_s3<S: Stream<Item = io::Result<Bytes>> + Unpin>(
        &self,
        path: Path,
        body: &mut Body<S>,
    ) -> Result<BlobInfo, BlobError> {
        let mut first = BytesMut::new();
        while first.len() < PART {
            match body.next().await? {
                Some(piece) => first.extend_from_slice(&piece),
                None => {
                    let info = body.info();
                    let object = Object { path, bytes: first.freeze(), digest: info.sha256 };
                    put::put(&self.place, move || Ok((object, ()))).await?;
                    return Ok(info);
                }
            }
        }
        let failed = |error| Error::storage("write", self.place.name(&path), error);
        if self.place.store.head(&path).await.is_ok() {
            return Err(Error::Conflict { object: self.place.name(&path) }.into());
        }
        let upload = self.place.store.put_multipart(&path).await.map_err(failed)?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, PART);
        writer.put(first.freeze());
        loop {
            let piece = match body.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    // What the store keeps of it is only paid for; the reason matters more.
                    let _ = writer.abort().await;
                    return Err(error);
                }
            };
            if let Err(error) = writer.wait_for_capacity(PARTS_AT_ONCE).await {
                let _ = writer.abort().await;
                return Err(failed(error).into());
            }
            writer.put(piece);
        }
        writer.finish().await.map_err(failed)?;
        Ok(body.info())
    }

    /// Opens an object to read it on a blocking thread. None when it is not there.
    pub async fn open_object(&self, object: &str) -> Result<Option<BlobReader>, Error> {
        BlobReader::open(&self.place, self.path(object)).await
    }

    /// Says of an object that is not there what an error would say.
    pub fn missing(&self, object: &str) -> Error {
        not_there(self.place.name(&self.path(object)))
    }
}

/// A body with its size and hash so far.
struct Body<S> {
    stream: S,
    max: u64,
    bytes: u64,
    hasher: sha2::Sha256,
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Body<S> {
    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let Some(piece) = self.stream.next().await.transpose().map_err(BlobError::Body)? else { return Ok(None) };
        self.bytes += redrive_core::count::of(piece.len());
        if self.bytes > self.max {
            return Err(BlobError::TooLarge { max: self.max });
        }
        self.hasher.update(&piece);
        Ok(Some(piece))
    }

    fn info(&self) -> BlobInfo {
        BlobInfo { bytes: self.bytes, sha256: Sha256::of_hasher(self.hasher.clone()) }
    }
}

/// Writes what comes until [`Piece::End`]; a sender that is gone before has given up.
fn write_file(place: &Place, path: &Path, mut pieces: mpsc::Receiver<Piece>) -> Result<(), Error> {
    let failed = |error| Error::file("write", place.name(path), error);
    let target = place.file(path);
    let directory = target.parent().unwrap_or(&target);
    let mut staged = Staged::create(place, &target)?;
    let file = staged.file();
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Bytes(piece)) => file.write_all(&piece).map_err(failed)?,
            Some(Piece::End) => break,
            None => return Err(Error::Interrupted { object: place.name(path) }),
        }
    }
    file.sync_all().map_err(failed)?;
    match std::fs::hard_link(staged.path(), &target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::Conflict { object: place.name(path) });
        }
        Err(error) => return Err(failed(error)),
    }
    let cannot_sync = |error| Error::file("sync", place.name(path), error);
    Directory::open(directory).and_then(|directory| directory.sync()).map_err(cannot_sync)?;
    place.directories().map_or(Ok(()), |directories| directories.sync_way_to(directory)).map_err(cannot_sync)?;
    marker::check_files(place)
}

enum Piece {
    Bytes(Bytes),
    End,
}
