//! Shows a run's records to a looker, in order. Reading the next piece goes on while the one before is looked at, and
//! looking happens off the threads that serve everything else. Between two pieces no thread is held, so any number of
//! judgements can wait for the same few threads.

use std::ops::ControlFlow;

use futures_util::StreamExt as _;
use redrive_store::raw::{Manifest, RawView, blocking};

use super::lines::{Block, Lines};
use crate::error::{Error, Result};

pub(super) trait Look: Send + 'static {
    /// Break says that the rest need not be read.
    fn look(&mut self, block: Block<'_>) -> Result<ControlFlow<()>>;
}

/// Gives back `looker` when all is seen, or when it has seen enough.
pub(super) async fn feed<L: Look>(raw: &RawView, manifest: &Manifest, mut looker: L) -> Result<L> {
    let mut pieces = raw.chunks(manifest);
    let mut lines = Lines::default();
    let mut piece = pieces.next().await.transpose()?;
    while let Some(bytes) = piece {
        let looking = blocking(move || {
            let flow = lines.take(&bytes, |block| looker.look(block))?;
            Ok::<_, Error>((lines, looker, flow))
        });
        let (looked, next) = tokio::join!(looking, pieces.next());
        let flow;
        (lines, looker, flow) = looked?;
        if flow.is_break() {
            break;
        }
        piece = next.transpose()?;
    }
    Ok(looker)
}
