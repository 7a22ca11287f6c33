//! A program's output in blocks of whole lines. A line that crosses two reads is joined; one that is longer than a
//! record may be ends the reading.

use std::io;
use std::time::Duration;

use futures_util::future::poll_immediate;
use memchr::{memchr, memrchr};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

use super::process::Process;

/// A read's worth: as much as the pipe holds, where it could be made that large.
pub(super) const READ: usize = 1 << 20;
/// Not handed out before as many bytes have come, while more are there for the taking.
const ENOUGH: usize = 256 << 10;
/// How long, in all, to wait for output after the leader has exited.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Blocks<R> {
    from: R,
    longest: usize,
    buffer: Vec<u8>,
    /// Where the last whole line in the buffer ends.
    whole: usize,
    /// How much of the buffer was handed out last.
    handed_out: usize,
    ended: bool,
    /// How long was waited for more since the leader exited.
    after_exit: Option<Duration>,
    incomplete: bool,
    /// The rest of a line that is too long is thrown away.
    skipping: bool,
}

/// Why a program's output cannot be read on.
#[derive(Debug)]
pub(crate) enum Cut {
    /// A line is longer than a record may be.
    Overlong,
    Io(io::Error),
}

/// Whether more may be there for the taking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Perhaps,
    NotNow,
}

impl<R: AsyncRead + Unpin> Blocks<R> {
    pub(super) fn new(from: R, longest: usize) -> Self {
        Self {
            from,
            longest,
            buffer: Vec::new(),
            whole: 0,
            handed_out: 0,
            ended: false,
            after_exit: None,
            incomplete: false,
            skipping: false,
        }
    }

    /// The next whole lines, each with its newline; at the end, perhaps, a last one without.
    pub(super) async fn next(&mut self, process: &mut Process) -> Result<Option<&[u8]>, Cut> {
        self.buffer.drain(..self.handed_out);
        (self.handed_out, self.whole) = (0, 0);
        while !self.ended {
            // Exactly: doubled, it would take up to twice as much as the longest line.
            self.buffer.reserve_exact(READ);
            let more = self.read(process).await?;
            if self.skipping {
                self.skip();
            }
            if self.whole > 0 && (more == More::NotNow || self.buffer.len() >= ENOUGH) {
                return Ok(self.give(self.whole));
            }
            if self.whole == 0 && self.buffer.len() > self.longest {
                return Err(Cut::Overlong);
            }
        }
        Ok(self.give(self.buffer.len()))
    }

    /// Throws a line away that was too long, so that reading can go on with the one after it.
    pub(super) fn skip_line(&mut self) {
        self.skipping = true;
        self.skip();
    }

    fn skip(&mut self) {
        let newline = memchr(b'\n', &self.buffer);
        let thrown = newline.map_or(self.buffer.len(), |newline| newline + 1);
        self.buffer.drain(..thrown);
        self.whole = self.whole.saturating_sub(thrown);
        self.skipping = newline.is_none();
    }

    /// Whether something that the leader left behind still held the pipe, so that more might have come.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    fn give(&mut self, bytes: usize) -> Option<&[u8]> {
        self.handed_out = bytes;
        (bytes > 0).then(|| &self.buffer[..bytes])
    }

    async fn read(&mut self, process: &mut Process) -> Result<More, Cut> {
        match poll_immediate(self.from.read_buf(&mut self.buffer)).await {
            Some(read) => self.took(read),
            None if self.whole > 0 => Ok(More::NotNow),
            None if self.after_exit.is_some() => self.read_after_exit().await,
            None => self.read_or_exit(process).await,
        }
    }

    async fn read_or_exit(&mut self, process: &mut Process) -> Result<More, Cut> {
        tokio::select! {
            read = self.from.read_buf(&mut self.buffer) => self.took(read),
            exited = process.exited() => {
                exited.map_err(Cut::Io)?;
                self.after_exit = Some(Duration::ZERO);
                Ok(More::Perhaps)
            }
        }
    }

    /// The leader is gone, and so, as a rule, is the writing end of the pipe; but a process that it left behind may
    /// hold it forever.
    async fn read_after_exit(&mut self) -> Result<More, Cut> {
        let Some(waited) = &mut self.after_exit else { return Ok(More::NotNow) };
        let begun = Instant::now();
        let read = timeout(LINGER.saturating_sub(*waited), self.from.read_buf(&mut self.buffer)).await;
        *waited += begun.elapsed();
        match read {
            Ok(read) => self.took(read),
            Err(_) => {
                self.incomplete = true;
                self.ended = true;
                Ok(More::NotNow)
            }
        }
    }

    fn took(&mut self, read: io::Result<usize>) -> Result<More, Cut> {
        let bytes = read.map_err(Cut::Io)?;
        self.ended = bytes == 0;
        let before = self.buffer.len() - bytes;
        if let Some(newline) = memrchr(b'\n', &self.buffer[before..]) {
            self.whole = before + newline + 1;
        }
        Ok(More::Perhaps)
    }
}
