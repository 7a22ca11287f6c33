//! Directories on a file system: making the entries that lead to one durable, and remembering where that is done.
//!
//! A directory that is found may have been made by another process a moment ago, which has not synced it yet. So every
//! directory on the way to an object is synced before the object is acknowledged, unless this process has done it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::shared_sync::SharedSyncs;

/// How many directories are remembered. All are forgotten when there are more: that costs some syncs and no promise.
const REMEMBERED_MAX: usize = 4096;

/// The directories of one sink.
#[derive(Debug)]
pub(super) struct Directories {
    root: PathBuf,
    /// Directories whose every entry on the way from `/` is durable, as this process saw to.
    durable: Mutex<HashMap<PathBuf, Identity>>,
    syncs: SharedSyncs,
}

/// Tells a directory from one that another process made later under the same name. Inode numbers are used again, so the
/// time of birth belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    born: SystemTime,
}

impl Directories {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, durable: Mutex::default(), syncs: SharedSyncs::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the sink's own directory, with what is missing above it.
    pub(super) fn make_root(&self) -> io::Result<()> {
        match fs::create_dir_all(&self.root) {
            // A file is in its place.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(ErrorKind::NotADirectory.into()),
            made => made,
        }
    }

    /// Makes durable that `dir` is there: the entries on the way to it, and not those in it.
    pub(super) fn sync_way_to(&self, dir: &Path) -> io::Result<()> {
        let mut synced = Vec::new();
        for parent in dir.ancestors().skip(1) {
            let identity = match self.syncs.sync(parent) {
                // Above the sink lies what others made: some of it may not be opened by this user, and some file systems
                // that are mounted there know no sync.
                Err(error) if self.is_above_root(parent) && is_out_of_reach(&error) => None,
                done => done?,
            };
            if identity.is_some_and(|identity| self.is_durable(parent, identity)) {
                break;
            }
            synced.extend(identity.map(|identity| (parent.to_owned(), identity)));
        }
        self.remember(synced);
        Ok(())
    }

    fn is_above_root(&self, dir: &Path) -> bool {
        self.root != dir && self.root.starts_with(dir)
    }

    fn is_durable(&self, dir: &Path, identity: Identity) -> bool {
        let durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.get(dir) == Some(&identity)
    }

    fn remember(&self, synced: Vec<(PathBuf, Identity)>) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() + synced.len() > REMEMBERED_MAX {
            durable.clear();
        }
        durable.extend(synced);
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// An open directory, whose entries can be made durable.
#[cfg(unix)]
pub(super) struct Directory(File);

#[cfg(unix)]
impl Directory {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        File::open(dir).map(Self)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// None without a time of birth: then the directory is never taken for known, and synced each time.
    pub(super) fn identity(&self) -> io::Result<Option<Identity>> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = self.0.metadata()?;
        let identity = |born| Identity { device: metadata.dev(), inode: metadata.ino(), born };
        Ok(metadata.created().ok().map(identity))
    }
}

/// Directories cannot be opened to be synced elsewhere.
#[cfg(not(unix))]
pub(super) struct Directory;

#[cfg(not(unix))]
impl Directory {
    pub(super) fn open(_dir: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(None)
    }
}

/// Fails when `dir` is there and is no directory, or its entries cannot be read. Reads none of them.
pub(super) fn probe_readable(dir: &Path) -> io::Result<()> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Fails when no file can be made in `dir`: permissions, mounts and quotas are best asked that way.
pub(super) fn probe_writable(dir: &Path) -> io::Result<()> {
    probe_with(dir, &[])
}

/// Fails, too, when there is no room for a file in `dir`: an empty one can be made where nothing can be written.
pub(super) fn probe_room(dir: &Path) -> io::Result<()> {
    probe_with(dir, &[0; 4 << 10])
}

fn probe_with(dir: &Path, content: &[u8]) -> io::Result<()> {
    // A hasher's random seed: two workers on one shared directory must not meet in one name.
    let random = RandomState::new().build_hasher().finish();
    let probe = dir.join(format!(".probe-{random:016x}"));
    let mut file = File::create_new(&probe)?;
    let written = file.write_all(content).and_then(|()| if content.is_empty() { Ok(()) } else { file.sync_all() });
    fs::remove_file(&probe)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_directory_made_again_is_not_known_though_it_has_the_inode_of_the_one_before() {
        let directories = Directories::new("/raw".into());
        let first = Identity { device: 1, inode: 2, born: SystemTime::UNIX_EPOCH };
        directories.remember(vec![("/raw/a".into(), first)]);
        let again = Identity { born: first.born + Duration::from_millis(1), ..first };
        assert!(directories.is_durable(Path::new("/raw/a"), first));
        assert!(!directories.is_durable(Path::new("/raw/a"), again));
        assert!(!directories.is_durable(Path::new("/raw/b"), first));
    }

    #[test]
    fn no_more_directories_are_remembered_than_is_said() {
        let directories = Directories::new("/raw".into());
        let identity = Identity { device: 1, inode: 2, born: SystemTime::UNIX_EPOCH };
        for n in 0..2 * REMEMBERED_MAX {
            directories.remember(vec![(format!("/raw/{n}").into(), identity)]);
            assert!(directories.is_durable(Path::new(&format!("/raw/{n}")), identity));
        }
        assert!(directories.durable.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
