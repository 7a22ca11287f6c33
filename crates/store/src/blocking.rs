//! Work that waits for a disk or uses a processor for long, off the threads that serve everything else.

use std::cell::Cell;

use tokio::runtime::Handle;

thread_local! {
    /// Whether this thread may be blocked, because [`at_once`] has it.
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Does a piece of work on a thread that may be blocked: on this one if it is such a thread, otherwise on another.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if MAY_BLOCK.get() {
        return work();
    }
    on_another_thread(work).await
}

/// Runs a future from its beginning to its end on one thread that may be blocked, so that each piece of [`blocking`] work
/// in it is done in place. For many short pieces: handing each to another thread would cost more than the work.
pub(crate) async fn at_once<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = Handle::current();
    on_another_thread(move || {
        let _blockable = Blockable::begin();
        runtime.block_on(future)
    })
    .await
}

/// The thread goes back to the pool as it came, also after a panic.
struct Blockable;

impl Blockable {
    fn begin() -> Self {
        MAY_BLOCK.set(true);
        Self
    }
}

impl Drop for Blockable {
    fn drop(&mut self) {
        MAY_BLOCK.set(false);
    }
}

async fn on_another_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is ending, and with it the caller.
            Err(_) => std::future::pending().await,
        },
    }
}
