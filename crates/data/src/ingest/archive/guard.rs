//! Counts what is read and what comes out of it, and keeps the true reason when reading ends.
//!
//! Decompressors report every failure as one kind of I/O error. So whatever stops a read from below (the storage, the
//! flag of cancellation, a limit) is noted here, and [`Guard::settle`] looks at the note before it blames the archive.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Error, Reason, Refusal};
use super::limits::{FREE_OF_RATIO, Limits};

/// Something that an upload can be read from. Zip archives have their directory at the end, so it must seek.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

pub(super) struct Guard<'a> {
    pub limits: &'a Limits,
    cancelled: &'a AtomicBool,
    read: Cell<u64>,
    unpacked: Cell<u64>,
    members: Cell<u64>,
    noted: RefCell<Option<Error>>,
}

impl<'a> Guard<'a> {
    pub fn new(limits: &'a Limits, cancelled: &'a AtomicBool) -> Self {
        Self {
            limits,
            cancelled,
            read: Cell::new(0),
            unpacked: Cell::new(0),
            members: Cell::new(0),
            noted: RefCell::new(None),
        }
    }

    pub fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    pub fn bytes_unpacked(&self) -> u64 {
        self.unpacked.get()
    }

    pub fn members(&self) -> u64 {
        self.members.get()
    }

    /// Counts one more member of an archive.
    pub fn count_member(&self) -> Result<(), Error> {
        self.check_cancelled()?;
        self.members.set(self.members.get() + 1);
        if self.members.get() > self.limits.max_files {
            let message = format!("the upload has more than {} members (max_files)", self.limits.max_files);
            return Err(Refusal::new(Reason::LimitExceeded, message).into());
        }
        Ok(())
    }

    pub fn check_cancelled(&self) -> Result<(), Error> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Counts what a decompressor brought forth, or what a link repeats.
    pub fn count_unpacked(&self, bytes: usize) -> Result<(), Error> {
        let unpacked = self.unpacked.get().saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.unpacked.set(unpacked);
        let Limits { max_bytes, max_ratio, .. } = *self.limits;
        let read = self.read.get();
        if unpacked > max_bytes {
            let message = format!("the upload unpacks to more than {max_bytes} bytes (max_bytes)");
            return Err(Refusal::new(Reason::LimitExceeded, message).into());
        }
        if unpacked > FREE_OF_RATIO && unpacked > read.saturating_mul(max_ratio) {
            let message = format!("{read} bytes unpack to {unpacked}, more than {max_ratio} times as much (max_ratio)");
            return Err(Refusal::new(Reason::LimitExceeded, message).into());
        }
        Ok(())
    }

    /// Notes why reading ends, and gives an error for the decompressors to carry upwards.
    pub fn note(&self, error: Error) -> io::Error {
        self.noted.borrow_mut().get_or_insert(error);
        io::Error::other("reading the upload was ended")
    }

    /// Takes the note, in case that a decompressor swallowed the error.
    pub fn noted(&self) -> Result<(), Error> {
        self.noted.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Turns a failed read into its true reason; when nothing is noted, the archive is at fault.
    pub fn settle(&self, refuse: impl FnOnce() -> Refusal) -> Error {
        self.noted.borrow_mut().take().unwrap_or_else(|| refuse().into())
    }
}

/// The stored upload. Its errors are errors of the storage.
pub(super) struct Upload<'g> {
    source: RefCell<&'g mut dyn Source>,
    guard: &'g Guard<'g>,
}

impl<'g> Upload<'g> {
    pub fn new(source: &'g mut dyn Source, guard: &'g Guard<'g>) -> Self {
        Self { source: RefCell::new(source), guard }
    }

    pub fn len(&self) -> io::Result<u64> {
        self.source.borrow_mut().seek(SeekFrom::End(0)).map_err(|error| self.guard.note(Error::Storage(error)))
    }

    pub fn rewind(&self) -> io::Result<()> {
        self.source.borrow_mut().rewind().map_err(|error| self.guard.note(Error::Storage(error)))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.guard.check_cancelled().map_err(|error| self.guard.note(error))?;
        let mut source = self.source.borrow_mut();
        loop {
            match source.read(buffer) {
                Ok(count) => {
                    let read = self.guard.read.get().saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                    self.guard.read.set(read);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.guard.note(Error::Storage(error))),
            }
        }
    }
}

impl Read for &Upload<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Upload::read(self, buffer)
    }
}

impl rawzip::ReaderAt for &Upload<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let sought = self.source.borrow_mut().seek(SeekFrom::Start(offset));
        sought.map_err(|error| self.guard.note(Error::Storage(error)))?;
        Upload::read(self, buffer)
    }
}

/// Counts what a decompressor brings forth.
pub(super) struct Metered<'g, R> {
    reader: R,
    guard: &'g Guard<'g>,
}

impl<'g, R> Metered<'g, R> {
    pub fn new(reader: R, guard: &'g Guard<'g>) -> Self {
        Self { reader, guard }
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.guard.check_cancelled().map_err(|error| self.guard.note(error))?;
        let count = self.reader.read(buffer)?;
        self.guard.count_unpacked(count).map_err(|error| self.guard.note(error))?;
        Ok(count)
    }
}
