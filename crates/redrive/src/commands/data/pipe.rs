//! Stdout for much data: buffered, and with an end when nobody reads any more.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write as _};

use anyhow::Context as _;

const BUFFER: usize = 256 << 10;

pub struct Pipe(BufWriter<Stdout>);

impl Pipe {
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(BUFFER, io::stdout()))
    }

    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(bytes).context("cannot write to stdout")
    }

    pub fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Must be called last: what a drop writes can fail unheard.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.flush()
    }

    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.0.flush().context("cannot write to stdout")
    }
}

/// Whether it is only that the reader has gone away.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe))
}
