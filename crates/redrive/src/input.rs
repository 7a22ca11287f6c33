//! Files that a command is given. A pipe or a device in the place of a file would be read for ever, so it is refused before
//! it is opened.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Opens a file, and nothing else.
pub fn open(path: &Path) -> io::Result<File> {
    check(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a text file as a whole.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// Fails unless it is a file.
pub fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other(no_file(metadata.file_type()))) }
}

fn no_file(kind: FileType) -> String {
    let what = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    format!("it is {what}, and only a file is read; write it into a file first")
}
