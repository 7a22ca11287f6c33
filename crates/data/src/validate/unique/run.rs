//! Sorted entries in a file that has no name: it is gone with the last handle, whatever happens to the process.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::entry::{ENTRY_BYTES, Entry};

/// Read or written at once.
const BUFFER: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Run {
    file: File,
    entries: u64,
}

impl Run {
    /// Writes entries that come sorted.
    pub(super) fn write(dir: &Path, entries: impl Iterator<Item = io::Result<Entry>>) -> io::Result<Self> {
        let mut to = BufWriter::with_capacity(BUFFER, tempfile::tempfile_in(dir)?);
        let mut count = 0;
        for entry in entries {
            to.write_all(&entry?.to_bytes())?;
            count += 1;
        }
        let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Self { file, entries: count })
    }

    /// Reads them, from the first.
    pub(super) fn read(&mut self) -> io::Result<RunReader<'_>> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(RunReader { from: BufReader::with_capacity(BUFFER, &self.file), left: self.entries })
    }
}

#[derive(Debug)]
pub(super) struct RunReader<'a> {
    from: BufReader<&'a File>,
    left: u64,
}

impl Iterator for RunReader<'_> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        self.left = self.left.checked_sub(1)?;
        let mut bytes = [0; ENTRY_BYTES];
        Some(self.from.read_exact(&mut bytes).map(|()| Entry::from_bytes(&bytes)))
    }
}
