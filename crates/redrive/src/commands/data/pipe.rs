//! Stdout for much data: buffered, and with an end when nobody reads any more.

use std::io::{self, BufWriter, Stdout};

use crate::error::Result;
use crate::output;

const BUFFER: usize = 256 << 10;

pub struct Pipe(BufWriter<Stdout>);

impl Pipe {
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(BUFFER, io::stdout()))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        output::write(&mut self.0, bytes)
    }

    pub fn line(&mut self, text: &str) -> Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Must be called last: what a drop writes can fail unheard.
    pub fn end(mut self) -> Result<()> {
        self.flush()
    }

    pub fn flush(&mut self) -> Result<()> {
        output::flush(&mut self.0)
    }
}
