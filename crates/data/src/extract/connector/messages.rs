//! Reads a connector's messages. Parsing them takes a processor's time and a handler may look things up on disk, so it
//! happens a block at a time where blocking is allowed.

use memchr::memchr;
use tokio::task::spawn_blocking;
use tracing::Span;

use crate::extract::{Error, Failure, MAX_RECORD_BYTES, Records};
use crate::program::{Child, Cut, End};

/// The largest answer that is gathered whole.
const GATHERED: usize = 64 << 20;

/// Understands a connector's messages, line by line.
pub(in crate::extract) trait MessageHandler: Send + 'static {
    /// Takes one line that is not blank. Its record, if it holds one, goes after the others in `records`, with a newline.
    fn line(&mut self, number: u64, line: &[u8], records: &mut Vec<u8>) -> Result<(), Failure>;
}

/// A handler and how far it has come.
#[derive(Debug)]
pub(in crate::extract) struct MessageReader<H> {
    handler: H,
    lines: u64,
}

/// What is known when the output has ended.
#[derive(Debug)]
pub(in crate::extract) struct ReadResult<H> {
    pub(in crate::extract) handler: H,
    pub(in crate::extract) end: End,
}

impl<H: MessageHandler> MessageReader<H> {
    pub(in crate::extract) fn new(handler: H) -> Self {
        Self { handler, lines: 0 }
    }

    pub(in crate::extract) fn into_handler(self) -> H {
        self.handler
    }

    /// Takes whole lines and gives the records in them.
    pub(in crate::extract) fn take(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut records = Vec::with_capacity(block.len());
        while !block.is_empty() {
            let end = memchr(b'\n', block).unwrap_or(block.len());
            self.lines += 1;
            let line = block[..end].trim_ascii();
            if !line.is_empty() {
                self.handler.line(self.lines, line, &mut records)?;
            }
            block = block.get(end + 1..).unwrap_or_default();
        }
        Ok(records)
    }
}

/// Brings every record that the handler finds, until the output ends.
pub(in crate::extract) async fn read_messages<H: MessageHandler>(
    mut child: Child,
    handler: H,
    records: &mut Records,
) -> Result<ReadResult<H>, Error> {
    let mut messages = MessageReader::new(handler);
    while let Some(block) = child.block().await.map_err(|cut| unreadable(&cut, messages.lines))? {
        let (block, span) = (block.to_vec(), Span::current());
        let parsing = spawn_blocking(move || {
            // What a connector says is logged there.
            let found = span.in_scope(|| messages.take(&block));
            (messages, found)
        });
        let found;
        (messages, found) = parsing.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        records.lines(&found?).await?;
    }
    Ok(ReadResult { handler: messages.handler, end: child.finish().await? })
}

/// Everything a program writes, for answers that are one document.
pub(in crate::extract) async fn gather(mut child: Child) -> Result<(Vec<u8>, End), Failure> {
    let mut all = Vec::new();
    while let Some(block) = child.block().await.map_err(|cut| unreadable(&cut, 0))? {
        all.extend_from_slice(block);
        if all.len() > GATHERED {
            return Err(Failure::fatal(format!(
                "the catalog is larger than {} MiB; name a catalog_file",
                GATHERED >> 20
            )));
        }
    }
    Ok((all, child.finish().await?))
}

fn unreadable(cut: &Cut, lines: u64) -> Failure {
    match cut {
        Cut::Overlong => {
            let limit = MAX_RECORD_BYTES >> 20;
            let number = lines + 1;
            Failure::fatal(format!("line {number} of the output is longer than {limit} MiB; split it at the source"))
        }
        Cut::Io(error) => Failure::retryable(format!("cannot read the program's output: {error}")),
    }
}
