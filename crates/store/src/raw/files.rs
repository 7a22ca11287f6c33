//! Objects on a file system.
//!
//! An object is written under a name of its own, synced, and then linked to its final name: a link is refused where the
//! name is taken, also by another process, and a crash leaves the whole object or none under its final name. The
//! first name ends in `#` and a number, which no listing takes for an object.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use object_store::path::Path as ObjectPath;

use super::digest::Sha256;
use super::error::Error;
use super::marker;
use super::place::{Found, Place};
use super::put::Object;
use super::sync::{Directories, Directory};

/// How often an object is put again that was there and is gone when it is looked at.
const TRIES: usize = 3;

/// Puts one object. Its content is durable then; its name is so with the next [`commit`] in its directory.
pub(super) fn put(place: &Place, object: &Object) -> Result<(), Error> {
    publish(place, object, stage(place, object)?)
}

/// Puts objects of one directory. The last can be seen only when all that is in the directory before it is durable, and
/// when this returns, it is durable too, with every directory on the way.
pub(super) fn commit(place: &Place, directories: &Directories, objects: &[Object]) -> Result<(), Error> {
    let Some((last, before)) = objects.split_last() else { return Ok(()) };
    for object in before {
        put(place, object)?;
    }
    let staged = stage(place, last)?;
    let cannot_sync = |error| Error::file("sync", place.name(&last.path), error);
    let path = place.file(&last.path);
    let path = path.parent().unwrap_or(directories.root());
    let directory = Directory::open(path).map_err(cannot_sync)?;
    directory.sync().map_err(cannot_sync)?;
    publish(place, last, staged)?;
    directory.sync().map_err(cannot_sync)?;
    directories.sync_way_to(path).map_err(cannot_sync)?;
    // It may have gone while this was written.
    marker::check_files(place)
}

/// Reads an object, or nothing when it is not there. One that is not `size` bytes long is not read.
pub(super) fn read(place: &Place, path: &ObjectPath, size: Option<u64>) -> Result<Option<Found>, Error> {
    let Some((file, found)) = open(place, path)? else { return Ok(None) };
    if size.is_some_and(|size| size != found) {
        return Ok(Some(Found::OtherSize(found)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found).unwrap_or(0));
    // Bounded, it is read by one call: its length need not be asked again, nor whether more follows.
    let read = file.take(found).read_to_end(&mut bytes);
    read.map_err(|error| Error::file("read", place.name(path), error))?;
    Ok(Some(Found::Bytes(bytes.into())))
}

/// The size of an object; none when it is not there. Whether links lead to its directory was looked at before.
pub(super) fn size(place: &Place, path: &ObjectPath) -> Result<Option<u64>, Error> {
    match place.file(path).symlink_metadata() {
        Ok(found) => Ok(found.is_file().then_some(found.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", place.name(path), error)),
    }
}

/// Opens an object, with its size; none when it is not there.
pub(super) fn open(place: &Place, path: &ObjectPath) -> Result<Option<(File, u64)>, Error> {
    open_below(place.root(), &place.file(path)).map_err(|error| Error::file("read", place.name(path), error))
}

fn open_below(root: &Path, path: &Path) -> io::Result<Option<(File, u64)>> {
    let file = match open_without_links(root, path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(Some((file, metadata.len()))),
        // A directory can be opened and not read.
        false if metadata.is_dir() => Ok(None),
        false => Err(io::Error::other("it is no regular file; remove it")),
    }
}

/// Opens a file to which no link leads from the root.
fn open_without_links(root: &Path, path: &Path) -> io::Result<File> {
    // No step lies between, and the root itself may lie behind links.
    if path.parent() == Some(root)
        && let Ok(file) = open_at_once(path)
    {
        return Ok(file);
    }
    #[cfg(target_os = "linux")]
    if let Some(opened) = open_by_the_kernels_check(root, path) {
        return opened;
    }
    refuse_links(root, path)?;
    open_at_once(path)
}

/// Opens a file by one call that refuses links itself, instead of a look at each step. None where the kernel does not know
/// the call or refuses the file: a look at each step says why.
#[cfg(target_os = "linux")]
fn open_by_the_kernels_check(root: &Path, path: &Path) -> Option<io::Result<File>> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let below = path.strip_prefix(root).ok()?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The root itself may lie behind links.
    let opened = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|root| rustix::fs::openat2(root, below, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS));
    match opened {
        Ok(file) => Some(Ok(file.into())),
        Err(rustix::io::Errno::NOENT) => Some(Err(ErrorKind::NotFound.into())),
        Err(_) => None,
    }
}

/// Opens a file without waiting for anyone: a pipe without a writer would hold the reader for ever.
#[cfg(unix)]
fn open_at_once(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Fails where a link stands on the way below the root, or in the object's own place: it could lead out of the sink.
pub(super) fn refuse_links(root: &Path, target: &Path) -> io::Result<()> {
    let Ok(below) = target.strip_prefix(root) else { return Ok(()) };
    let mut path = root.to_owned();
    for step in below.components() {
        path.push(step);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let why = format!("{} is a symbolic link, and none is followed; remove it", path.display());
                return Err(io::Error::other(why));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the files that writers which are gone left under first names in a directory; gives how many.
pub(super) fn clear_staged(directory: &Path) -> io::Result<usize> {
    clear_left(directory, Left::File, is_first_name)
}

/// What a writer that is gone may have left under a first name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    File,
    Directory,
}

/// Removes what writers that are gone left under such names in a directory; gives how many. A writer that is alive has what it
/// makes locked, or is about to lock it and then looks whether it still has its name.
pub(super) fn clear_left(directory: &Path, kind: Left, is_first_name: impl Fn(&OsStr) -> bool) -> io::Result<usize> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        if is_first_name(&entry.file_name()) && clear_one(&entry, kind)? {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes a file or directory whose writer is gone. One that is gone itself by now needs nothing.
fn clear_one(entry: &fs::DirEntry, kind: Left) -> io::Result<bool> {
    let cleared = || -> io::Result<bool> {
        let (path, found) = (entry.path(), entry.file_type()?);
        let is_such = match kind {
            Left::File => found.is_file(),
            Left::Directory => found.is_dir(),
        };
        if !is_such {
            return Ok(false);
        }
        let file = open_at_once(&path)?;
        // Locked until the name is gone, which must be the name of this very file: another sweep may have been here.
        let is_left = file.try_lock().is_ok() && is_named(&file, &path);
        match kind {
            Left::File if is_left => fs::remove_file(&path)?,
            Left::Directory if is_left => fs::remove_dir_all(&path)?,
            Left::File | Left::Directory => {}
        }
        Ok(is_left)
    };
    match cleared() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        cleared => cleared,
    }
}

/// Whether a file has that name.
#[cfg(unix)]
pub(super) fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(not(unix))]
pub(super) fn is_named(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// Whether a name is an object's first one: it ends in `#` and a number.
fn is_first_name(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.rsplit_once('#')).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An object under its first name. Dropping it removes that name.
pub(super) struct Staged {
    path: PathBuf,
    /// Locked as long as its writer lives.
    file: File,
}

impl Staged {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Makes the file, and the directories that lead to it.
    pub(super) fn create(place: &Place, target: &Path) -> Result<Self, Error> {
        let failed = |error| Error::file("write", target.display().to_string(), error);
        refuse_links(place.root(), target).map_err(failed)?;
        match Self::create_in_place(target) {
            // Most objects come after another one of their directory.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A sink that is gone is not made anew.
                marker::check_files(place)?;
                fs::create_dir_all(target.parent().unwrap_or(target)).map_err(failed)?;
                Self::create_in_place(target).map_err(failed)
            }
            created => created.map_err(failed),
        }
    }

    fn create_in_place(target: &Path) -> io::Result<Self> {
        let mut number = 1_u32;
        loop {
            let mut path = OsString::from(target);
            path.push(format!("#{number}"));
            match File::create_new(&path) {
                Ok(file) => {
                    let path = PathBuf::from(path);
                    // Where the file system knows no locks, what a crash leaves stays.
                    let _ = file.lock();
                    if is_named(&file, &path) {
                        return Ok(Self { path, file });
                    }
                    // A sweep came before the lock, and took the file for one that was left behind.
                }
                // Another writer's, or left by a crash.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What stays is not taken for an object.
        let _ = fs::remove_file(&self.path);
    }
}

fn stage(place: &Place, object: &Object) -> Result<Staged, Error> {
    let mut staged = Staged::create(place, &place.file(&object.path))?;
    let file = staged.file();
    let written = file.write_all(&object.bytes).and_then(|()| file.sync_all());
    written.map_err(|error| Error::file("write", place.name(&object.path), error))?;
    Ok(staged)
}

/// Gives the object its final name, or finds the same object there.
fn publish(place: &Place, object: &Object, staged: Staged) -> Result<(), Error> {
    let target = place.file(&object.path);
    let failed = |error| Error::file("write", place.name(&object.path), error);
    for _ in 0..TRIES {
        match fs::hard_link(&staged.path, &target) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        match sync_found(place.root(), &target, object).map_err(failed)? {
            Some(true) => return Ok(()),
            Some(false) => return Err(Error::Conflict { object: place.name(&object.path) }),
            None => {}
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// Tells whether the object that was found is the same, and then makes its content durable: another process may have
/// written it without a sync. None when nothing is there any more.
fn sync_found(root: &Path, target: &Path, object: &Object) -> io::Result<Option<bool>> {
    match open_below(root, target)? {
        None if target.exists() => Ok(Some(false)),
        None => Ok(None),
        Some((_, found)) if found != object.size() => Ok(Some(false)),
        Some((mut file, _)) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            file.sync_all()?;
            Ok(Some(Sha256::of(&bytes) == object.digest))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_sweep_takes_no_file_of_a_writer_that_lives() {
        let (directory, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let left = directory.path().join("left#1");
        fs::write(&left, "by a writer that is gone").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        clear_staged(directory.path()).unwrap();
                    }
                });
            }
            let lost = (0..1500).filter(|nth| {
                let target = directory.path().join(format!("object-{nth}"));
                let staged = Staged::create_in_place(&target).unwrap();
                fs::hard_link(staged.path(), &target).is_err()
            });
            let lost = lost.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0, "files were taken from their writers");
        });
        assert!(!left.exists(), "what was left behind is gone");
    }
}
