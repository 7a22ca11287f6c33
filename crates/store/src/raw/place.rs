//! An opened sink: the store, where in it the sink begins, and how its objects are called in errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt as _};

use super::cause;
use super::error::Error;
use super::s3::{self, Patience, S3Options};
use super::sync;
use super::url::RawUrl;

#[derive(Clone)]
pub(super) struct Place {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) base: Path,
    /// The sink's own directory, when it is one.
    root: Option<Arc<PathBuf>>,
    /// What stands before an object's path when it is shown.
    shown: Arc<str>,
}

/// The object store's own debug text may hold settings.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name(&self.base))
    }
}

/// A store that was opened, with the client that is quick to give up.
struct Checked {
    place: Place,
    check: Arc<dyn ObjectStore>,
}

impl Place {
    /// For reading: a directory that nobody has made yet is an empty sink.
    pub(super) async fn open_to_read(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        let Checked { place, check } = Self::locate(url, options)?;
        if let Some(root) = place.root.clone() {
            // A listing of a file is empty, and would pass for an empty sink.
            let usable = blocking(move || sync::directory_or_absent(&root)).await;
            usable.map_err(|error| cause::file("read", url.to_string(), error))?;
        }
        match check.list(Some(&place.base)).next().await {
            Some(Err(error)) => Err(cause::storage("read", url.to_string(), error)),
            Some(Ok(_)) | None => Ok(place),
        }
    }

    /// For writing: makes the directory, and finds out now whether it can be written.
    pub(super) async fn open_to_write(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        if let RawUrl::File(path) = url {
            let root = absolute(path)?;
            let made = blocking(move || sync::create_root(&root).and_then(|()| sync::probe(&root))).await;
            made.map_err(|error| cause::file("write to", url.to_string(), error))?;
        }
        Self::open_to_read(url, options).await
    }

    fn locate(url: &RawUrl, options: &S3Options) -> Result<Checked, Error> {
        match url {
            RawUrl::File(path) => {
                let root = absolute(path)?;
                let base = Path::from_absolute_path(&root).map_err(|_| Error::Url {
                    url: url.to_string(),
                    why: "is no path in UTF-8 without `.` and `..`",
                })?;
                // With the whole file system as its base the store does not ask that the directory be there.
                let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new().with_fsync(true));
                let place = Self { store: store.clone(), base, root: Some(Arc::new(root)), shown: "/".into() };
                Ok(Checked { place, check: store })
            }
            RawUrl::S3 { bucket, prefix } => {
                let client = |patience| s3::client(&url.to_string(), bucket, options, patience);
                let shown = format!("s3://{bucket}/").into();
                let store = Arc::new(client(Patience::Work)?);
                let place = Self { store, base: prefix.clone(), root: None, shown };
                Ok(Checked { place, check: Arc::new(client(Patience::Check)?) })
            }
        }
    }

    /// Whether it could be opened to write again, and has room.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let Some(root) = self.root.clone() else {
            return match self.store.list(Some(&self.base)).next().await {
                Some(Err(error)) => Err(cause::storage("read", self.name(&self.base), error)),
                Some(Ok(_)) | None => Ok(()),
            };
        };
        let probed = blocking(move || sync::create_root(&root).and_then(|()| sync::probe_room(&root))).await;
        probed.map_err(|error| cause::file("write to", self.name(&self.base), error))
    }

    /// How errors call an object.
    pub(super) fn name(&self, path: &Path) -> String {
        format!("{}{path}", self.shown)
    }

    /// Where other programs find an object. On a file system that is the path as it is on disk, which may differ from how
    /// the store writes it.
    pub(super) fn location(&self, path: &Path) -> String {
        match &self.root {
            Some(root) => root.join(self.below(path)).display().to_string(),
            None => self.name(path),
        }
    }

    fn below<'p>(&self, path: &'p Path) -> &'p str {
        path.as_ref().strip_prefix(self.base.as_ref()).unwrap_or_default().trim_start_matches('/')
    }

    /// The bytes of an object, or none when it is not there. An object that is not `size` bytes long is not read.
    pub(super) async fn read(&self, path: &Path, size: Option<u64>) -> Result<Option<Found>, Error> {
        let failed = |error| cause::storage("read", self.name(path), error);
        let got = match self.store.get(path).await {
            Ok(got) => got,
            Err(error) if cause::is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let found = got.meta.size;
        if size.is_some_and(|size| size != found) {
            return Ok(Some(Found::OtherSize(found)));
        }
        got.bytes().await.map(|bytes| Some(Found::Bytes(bytes))).map_err(failed)
    }

    /// Makes durable an object that was found already written, as if we had written it.
    pub(super) async fn settle(&self, path: &Path) -> Result<(), Error> {
        if self.root.is_none() {
            return Ok(());
        }
        let got = self.store.get(path).await.map_err(|error| cause::storage("sync", self.name(path), error))?;
        let GetResultPayload::File(file, _) = got.payload else { return Ok(()) };
        blocking(move || sync::found(&file)).await.map_err(|error| cause::file("sync", self.name(path), error))
    }

    /// Makes durable the directories that lead to `dir`.
    pub(super) async fn settle_directories(&self, dir: &Path) -> Result<(), Error> {
        let Some(root) = self.root.clone() else { return Ok(()) };
        let below = self.below(dir).to_owned();
        let synced = blocking(move || sync::directories(&root.join(below), &root)).await;
        synced.map_err(|error| cause::file("sync", self.name(dir), error))
    }
}

/// What reading an object of an expected size gives.
pub(super) enum Found {
    Bytes(Bytes),
    OtherSize(u64),
}

fn absolute(path: &std::path::Path) -> Result<PathBuf, Error> {
    let failed = |error| cause::file("resolve", path.display().to_string(), error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    // `..` is resolved by the file system itself, as far as it exists: `a/../b` is not `b` when `a` is a link.
    if absolute.components().any(|step| step == std::path::Component::ParentDir) {
        return std::fs::canonicalize(&absolute).map_err(failed);
    }
    Ok(absolute)
}

/// File and compression work, off the threads that serve everything else.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}
