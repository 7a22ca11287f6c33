//! Objects on a file system.
//!
//! An object is written under a name of its own, synced, and then linked to its final name: a link is refused where the
//! name is taken, also by another process, and a crash leaves the whole object or none under its final name. The
//! first name ends in `#` and a number, which no listing takes for an object.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::digest::Sha256;
use super::error::Error;
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
    directories.sync_way_to(path).map_err(cannot_sync)
}

/// Reads an object, or nothing when it is not there. One that is not `size` bytes long is not read.
pub(super) fn read(path: &Path, size: Option<u64>) -> io::Result<Option<Found>> {
    let Some((file, found)) = open(path)? else { return Ok(None) };
    if size.is_some_and(|size| size != found) {
        return Ok(Some(Found::OtherSize(found)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found).unwrap_or(0));
    // Bounded, it is read by one call: its length need not be asked again, nor whether more follows.
    file.take(found).read_to_end(&mut bytes)?;
    Ok(Some(Found::Bytes(bytes.into())))
}

/// Opens an object, with its size; none when it is not there.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    // A directory can be opened and not read.
    Ok(metadata.is_file().then_some((file, metadata.len())))
}

/// An object under its first name, written and synced. Dropping it removes that name.
pub(super) struct Staged {
    path: PathBuf,
}

impl Staged {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn create(target: &Path) -> io::Result<(Self, File)> {
        let mut number = 1_u32;
        loop {
            let mut path = OsString::from(target);
            path.push(format!("#{number}"));
            match File::create_new(&path) {
                Ok(file) => return Ok((Self { path: path.into() }, file)),
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
    let write = || {
        let target = place.file(&object.path);
        let (staged, mut file) = match Staged::create(&target) {
            // Most objects come after another one of their directory.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(target.parent().unwrap_or(&target))?;
                Staged::create(&target)?
            }
            created => created?,
        };
        file.write_all(&object.bytes)?;
        file.sync_all()?;
        Ok(staged)
    };
    write().map_err(|error| Error::file("write", place.name(&object.path), error))
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
        match sync_found(&target, object).map_err(failed)? {
            Some(true) => return Ok(()),
            Some(false) => return Err(Error::Conflict { object: place.name(&object.path) }),
            None => {}
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// Tells whether the object that was found is the same, and then makes its content durable: another process may have
/// written it without a sync. None when nothing is there any more.
fn sync_found(target: &Path, object: &Object) -> io::Result<Option<bool>> {
    match open(target)? {
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
