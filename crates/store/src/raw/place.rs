//! An opened sink: the store, where in it the sink begins, and how its objects are called in errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::error::{self, Error};
use super::files;
use super::marker::{self, SinkId};
use super::s3::{self, Patience, S3Options};
use super::sync::{self, Directories};
use super::url::RawUrl;
use super::whole_directory;
use crate::blocking::blocking;

#[derive(Clone)]
pub(super) struct Place {
    /// For listing, and on S3 for everything.
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) base: Path,
    /// Where the place is a directory.
    directories: Option<Arc<Directories>>,
    /// What stands before an object's path when it is shown.
    shown: Arc<str>,
    /// The sink that this must be, by its marker.
    expected: Option<SinkId>,
}

/// The object store's own debug text may hold settings.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name(&self.base))
    }
}

/// A place, with a client for its store that is quick to give up.
struct OpenedPlace {
    place: Place,
    check: Arc<dyn ObjectStore>,
}

impl OpenedPlace {
    /// Fails when the place cannot be used: `probe` is for its directory, where it is one.
    async fn probed(
        self,
        url: &RawUrl,
        doing: &'static str,
        probe: fn(&Directories) -> std::io::Result<()>,
    ) -> Result<Place, Error> {
        let Self { place, check } = self;
        let url = url.to_string();
        match place.directories.clone() {
            None => answers(&*check, &place.base).await.map_err(|error| Error::storage("read", url, error))?,
            Some(directories) => {
                blocking(move || probe(&directories).map_err(|error| Error::file(doing, url, error))).await?;
            }
        }
        Ok(place)
    }
}

impl Place {
    /// Opens a place to read. A directory that does not exist yet is an empty place.
    pub(super) async fn open_to_read(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        let probe = |directories: &Directories| sync::probe_readable(directories.root());
        Self::locate(url, options)?.probed(url, "read", probe).await
    }

    /// Opens a place to write: makes the directory, and fails now when it cannot be written.
    pub(super) async fn open_to_write(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        let probe = |directories: &Directories| {
            directories.make_root()?;
            sync::probe_writable(directories.root())?;
            sync::probe_readable(directories.root())
        };
        Self::locate(url, options)?.probed(url, "write to", probe).await
    }

    /// Opens the sink that a database knows, which must be there; or, where the database knows none, one that may be new,
    /// and leaves a marker in it.
    pub(super) async fn open_known(url: &RawUrl, options: &S3Options, known: Option<SinkId>) -> Result<Self, Error> {
        let Some(known) = known else {
            let mut place = Self::open_to_write(url, options).await?;
            place.expected = Some(marker::ensure(&place).await?);
            return Ok(place);
        };
        let opened = Self::locate(url, options)?;
        let quick = Self { store: Arc::clone(&opened.check), ..opened.place.clone() };
        marker::check(&quick, known).await?;
        let probe = |directories: &Directories| {
            sync::probe_writable(directories.root())?;
            sync::probe_readable(directories.root())
        };
        let place = opened.probed(url, "write to", probe).await?;
        Ok(Self { expected: Some(known), ..place })
    }

    pub(super) fn expected(&self) -> Option<SinkId> {
        self.expected
    }

    /// Fails when the sink is not, or is no longer, the one that it must be.
    pub(super) async fn check_marker(&self) -> Result<(), Error> {
        match self.expected {
            Some(expected) => marker::check(self, expected).await,
            None => Ok(()),
        }
    }

    fn locate(url: &RawUrl, options: &S3Options) -> Result<OpenedPlace, Error> {
        match url {
            RawUrl::File(path) => {
                let root = absolute(path)?;
                let base = Path::from_absolute_path(&root).map_err(|_| Error::Url {
                    url: url.to_string(),
                    why: "is no path in UTF-8 without `.` and `..`",
                })?;
                // With the whole file system as its base the store does not ask that the directory be there.
                let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
                let directories = Some(Arc::new(Directories::new(root)));
                let place = Self { store: store.clone(), base, directories, shown: "/".into(), expected: None };
                Ok(OpenedPlace { place, check: store })
            }
            RawUrl::S3 { bucket, prefix } => {
                let client = |patience| s3::client(&url.to_string(), bucket, options, patience);
                let shown = format!("s3://{bucket}/").into();
                let store = Arc::new(client(Patience::Work)?);
                let place = Self { store, base: prefix.clone(), directories: None, shown, expected: None };
                Ok(OpenedPlace { place, check: Arc::new(client(Patience::Check)?) })
            }
        }
    }

    /// Fails when the place could not be opened to write again, or has no room.
    pub(super) async fn check(&self) -> Result<(), Error> {
        self.check_marker().await?;
        let name = self.name(&self.base);
        let Some(directories) = self.directories.clone() else {
            return answers(&*self.store, &self.base).await.map_err(|error| Error::storage("read", name, error));
        };
        // A known sink that goes at this moment must not leave an empty folder in its place.
        let may_be_new = self.expected.is_none();
        blocking(move || {
            let made = if may_be_new { directories.make_root() } else { Ok(()) };
            let probed = made.and_then(|()| sync::probe_room(directories.root()));
            probed.map_err(|error| Error::file("write to", name, error))
        })
        .await
    }

    /// Whether the place as a whole serves no caller now, or served none when an attempt met `error`.
    pub(super) async fn is_down(&self, error: &Error) -> bool {
        error.is_of_the_whole_sink() || self.check().await.is_err()
    }

    /// The directories of a place on a file system.
    pub(super) fn directories(&self) -> Option<&Arc<Directories>> {
        self.directories.as_ref()
    }

    /// The directory of a place on a file system.
    pub(super) fn root(&self) -> &std::path::Path {
        self.directories.as_ref().map_or_else(|| std::path::Path::new(""), |directories| directories.root())
    }

    /// How errors call an object.
    pub(super) fn name(&self, path: &Path) -> String {
        format!("{}{path}", self.shown)
    }

    /// Where other programs find an object.
    pub(super) fn location(&self, path: &Path) -> String {
        match &self.directories {
            Some(_) => self.file(path).display().to_string(),
            None => self.name(path),
        }
    }

    /// An object's path on disk, which may differ from how the store writes it.
    pub(super) fn file(&self, path: &Path) -> PathBuf {
        let below = path.as_ref().strip_prefix(self.base.as_ref()).unwrap_or_default().trim_start_matches('/');
        self.directories.as_ref().map_or_else(PathBuf::new, |directories| directories.root().join(below))
    }

    /// Removes what writers that are gone left in the directory of an object. On S3 they leave nothing that has a name.
    pub(super) async fn clear_staged_beside(&self, path: &Path) -> Result<usize, Error> {
        if self.directories.is_none() {
            return Ok(0);
        }
        let (file, name) = (self.file(path), self.name(path));
        blocking(move || {
            let directory = file.parent().unwrap_or(&file);
            files::clear_staged(directory).map_err(|error| Error::file("clear", name, error))
        })
        .await
    }

    /// Removes what writers that are gone left of a directory that has no name yet.
    pub(super) async fn clear_staged_directories(&self, path: &Path) -> Result<usize, Error> {
        if self.directories.is_none() {
            return Ok(0);
        }
        let (directory, name) = (self.file(path), self.name(path));
        blocking(move || whole_directory::clear_staged(&directory).map_err(|error| Error::file("clear", name, error)))
            .await
    }

    /// The bytes of an object, or none when it is not there. An object that is not `size` bytes long is not read.
    pub(super) async fn read(&self, path: &Path, size: Option<u64>) -> Result<Option<Found>, Error> {
        if self.directories.is_some() {
            let (place, path) = (self.clone(), path.clone());
            return blocking(move || files::read(&place, &path, size)).await;
        }
        let failed = |error| Error::storage("read", self.name(path), error);
        let got = match self.store.get(path).await {
            Ok(got) => got,
            Err(error) if error::is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let found = got.meta.size;
        if size.is_some_and(|size| size != found) {
            return Ok(Some(Found::OtherSize(found)));
        }
        got.bytes().await.map(|bytes| Some(Found::Bytes(bytes))).map_err(failed)
    }
}

/// What reading an object of an expected size gives.
pub(super) enum Found {
    Bytes(Bytes),
    OtherSize(u64),
}

/// Fails when the store does not answer for what lies below `base`. Asks only for names behind all of ours (`~` comes
/// after every letter), so that the answer is short however much is there.
async fn answers(store: &dyn ObjectStore, base: &Path) -> object_store::Result<()> {
    match store.list_with_offset(Some(base), &base.clone().join("~")).next().await {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

fn absolute(path: &std::path::Path) -> Result<PathBuf, Error> {
    let failed = |error| Error::file("resolve", path.display().to_string(), error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    // `..` is resolved by the file system itself, as far as it exists: `a/../b` is not `b` when `a` is a link.
    if absolute.components().any(|step| step == std::path::Component::ParentDir) {
        return std::fs::canonicalize(&absolute).map_err(failed);
    }
    Ok(absolute)
}
