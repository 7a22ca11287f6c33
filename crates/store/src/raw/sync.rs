//! Making directory entries durable on a file system.
//!
//! The object store syncs the files it writes and the directories it makes itself. It cannot know of a directory that
//! another worker made a moment ago and has not synced yet, so before a run is acknowledged every directory above it
//! is synced, up to the sink's own.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::Path;

/// Syncs `from` and every directory above it up to `root`.
pub(super) fn directories(from: &Path, root: &Path) -> io::Result<()> {
    for dir in from.ancestors() {
        directory(dir)?;
        if dir == root {
            break;
        }
    }
    Ok(())
}

/// Makes `root` with what is missing above it. One that is there is left alone.
pub(super) fn create_root(root: &Path) -> io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    directory_or_absent(root)?;
    let there = root.ancestors().find(|dir| dir.exists()).unwrap_or(root).to_path_buf();
    fs::create_dir_all(root)?;
    directories(root, &there)
}

/// Refuses what is there and is no directory.
pub(super) fn directory_or_absent(root: &Path) -> io::Result<()> {
    if root.exists() && !root.is_dir() { Err(io::ErrorKind::NotADirectory.into()) } else { Ok(()) }
}

/// Whether a file can be made in `dir`: permissions, mounts and quotas are best asked that way.
pub(super) fn probe(dir: &Path) -> io::Result<()> {
    probe_with(dir, &[])
}

/// Whether there is room for a file in `dir`, too: an empty one can be made where nothing can be written.
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

/// A file that was found written already: whoever wrote it may not have synced it.
pub(super) fn found(file: &File) -> io::Result<()> {
    file.sync_all()
}

#[cfg(unix)]
fn directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Directories cannot be opened to be synced elsewhere.
#[cfg(not(unix))]
fn directory(_dir: &Path) -> io::Result<()> {
    Ok(())
}
