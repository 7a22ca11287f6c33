//! A piece of work on a thread of its own: deciding about a chunk keeps a thread busy for as long as the database needs for a statement.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use redrive_store::under_same_key;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Goes on while its caller is busy. When the caller is dropped it ends too, at the latest with the commit that it is at.
pub(super) struct Beside<T>(JoinHandle<T>);

impl<T: Send + 'static> Beside<T> {
    pub(super) fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(under_same_key(work).in_current_span()))
    }
}

impl<T> Future for Beside<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        match Pin::new(&mut self.0).poll(task) {
            Poll::Ready(Ok(done)) => Poll::Ready(done),
            Poll::Ready(Err(gone)) => match gone.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and the task that waits here ends with it.
                Err(_) => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
