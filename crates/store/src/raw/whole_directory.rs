//! A directory that gets its name when all its objects are durable in it: it is written under a first name, synced and
//! renamed. So one sync of the directory does for all objects, where objects that get their names one after another
//! need two, and no reader ever finds some of them without the others.
//!
//! A rename is refused where a directory that holds something has the name, also another process's. The first name begins
//! with a dot and ends in `#` and a number: it is no run's, and other programs pass over what begins with a dot.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::files::{Left, clear_left, is_named, refuse_links};
use super::marker;
use super::place::Place;
use super::put::Object;
use super::sync::Directories;

/// Puts a directory with all its objects; when this returns true, it is durable with every directory on the way. False says
/// that this cannot be done, as when something has the name already, and that nothing was put.
pub(super) fn put(place: &Place, directories: &Directories, objects: &[Object]) -> Result<bool, Error> {
    let Some(first) = objects.first() else { return Ok(true) };
    let file = place.file(&first.path);
    let Some(target) = file.parent().filter(|_| cfg!(unix)) else { return Ok(false) };
    let failed = |error| Error::file("write", place.name(&first.path), error);
    refuse_links(place.root(), target).map_err(failed)?;
    // A sink that is gone is not made anew.
    marker::check_files(place)?;
    let mut staged = StagedDirectory::create(target).map_err(failed)?;
    for object in objects {
        let written = staged.write(&place.file(&object.path), &object.bytes);
        written.map_err(|error| Error::file("write", place.name(&object.path), error))?;
    }
    let cannot_sync = |error| Error::file("sync", place.name(&first.path), error);
    staged.file.sync_all().map_err(cannot_sync)?;
    if !staged.rename(target).map_err(failed)? {
        return Ok(false);
    }
    directories.sync_way_to(target).map_err(cannot_sync)?;
    // It may have gone while this was written.
    marker::check_files(place)?;
    Ok(true)
}

/// Removes what writers that are gone left of a directory under its first names; gives how many.
pub(super) fn clear_staged(target: &Path) -> io::Result<usize> {
    let (Some(parent), Some(mut first_name)) = (target.parent(), first_name(target)) else { return Ok(0) };
    first_name.push("#");
    let is_of_target = |name: &OsStr| name.as_encoded_bytes().starts_with(first_name.as_encoded_bytes());
    clear_left(parent, Left::Directory, is_of_target)
}

/// The first name of a directory, without its number.
fn first_name(target: &Path) -> Option<OsString> {
    let mut name = OsString::from(".");
    name.push(target.file_name()?);
    Some(name)
}

/// A directory under its first name. Dropping it removes it with its content.
struct StagedDirectory {
    path: PathBuf,
    /// Locked as long as its writer lives.
    file: File,
    is_renamed: bool,
}

impl StagedDirectory {
    /// Makes the directory, and those that lead to it.
    fn create(target: &Path) -> io::Result<Self> {
        match Self::create_in_place(target) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(target.parent().unwrap_or(target))?;
                Self::create_in_place(target)
            }
            created => created,
        }
    }

    fn create_in_place(target: &Path) -> io::Result<Self> {
        let first_name = first_name(target).ok_or(ErrorKind::InvalidInput)?;
        let mut number = 1_u32;
        loop {
            let mut name = first_name.clone();
            name.push(format!("#{number}"));
            let path = target.with_file_name(name);
            match fs::create_dir(&path) {
                Ok(()) => {}
                // Another writer's, or left by a crash.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    number += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            match File::open(&path) {
                Ok(file) => {
                    // Where the file system knows no locks, what a crash leaves stays.
                    let _ = file.lock();
                    if is_named(&file, &path) {
                        return Ok(Self { path, file, is_renamed: false });
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // A sweep came before the lock, and took the directory for one that was left behind.
        }
    }

    /// Writes a file that will lie at `target`. Its content is durable then.
    fn write(&self, target: &Path, content: &[u8]) -> io::Result<()> {
        let name = target.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut file = File::create_new(self.path.join(name))?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Gives the directory its final name; false where that is taken, or the file system cannot do it.
    fn rename(&mut self, target: &Path) -> io::Result<bool> {
        let renamed = fs::rename(&self.path, target);
        self.is_renamed = renamed.is_ok();
        if let Err(error) = renamed
            && !is_taken_or_impossible(error.kind())
        {
            return Err(error);
        }
        Ok(self.is_renamed)
    }
}

/// Whether objects that are put one by one may fare better than the directory as a whole, or say why they cannot be put.
fn is_taken_or_impossible(refusal: ErrorKind) -> bool {
    matches!(
        refusal,
        ErrorKind::AlreadyExists
            | ErrorKind::DirectoryNotEmpty
            | ErrorKind::NotADirectory
            | ErrorKind::CrossesDevices
            | ErrorKind::Unsupported
    )
}

impl Drop for StagedDirectory {
    fn drop(&mut self) {
        if !self.is_renamed {
            // What stays is not taken for a run.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_sweep_takes_no_directory_of_a_writer_that_lives() {
        let (parent, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let target = parent.path().join("run");
        fs::create_dir(parent.path().join(".run#7")).unwrap();
        fs::write(parent.path().join(".run#7/part"), "by a writer that is gone").unwrap();
        fs::create_dir(parent.path().join(".runner#1")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        clear_staged(&target).unwrap();
                    }
                });
            }
            let lost = (0..500).filter(|_| {
                let staged = StagedDirectory::create_in_place(&target).unwrap();
                staged.write(&target.join("part"), b"whole").is_err()
            });
            let lost = lost.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0, "directories were taken from their writers");
        });
        let left: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".runner#1"], "what was left behind is gone, and nothing else");
    }

    #[test]
    fn a_directory_that_holds_something_is_not_replaced_and_an_empty_one_is() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("run");
        for (name, is_put) in [("first", true), ("second", false)] {
            if is_put {
                // Another writer has made it, and has not written yet.
                fs::create_dir(&target).unwrap();
            }
            let mut staged = StagedDirectory::create(&target).unwrap();
            staged.write(&target.join(name), b"content").unwrap();
            assert_eq!(staged.rename(&target).unwrap(), is_put, "{name}");
        }
        assert!(target.join("first").exists() && !target.join("second").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "the first name is gone");
    }
}
