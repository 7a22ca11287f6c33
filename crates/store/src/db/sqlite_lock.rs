//! Waiting for another process's lock on a SQLite file.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::time::Instant;

use crate::hurry::Hurry;

/// How long a writer waits for another's lock before it says so.
const WRITER_PATIENCE: Duration = Duration::from_secs(60);
/// The same for a reader. Beside the write-ahead log a writer is never waited for, only a process that opens the file or puts
/// it in order, which takes a moment. A process that keeps readers out does so for long.
const READER_PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// SQLite calls the handler on the thread that waits, and tells it nothing but the number of tries.
    static HURRY: RefCell<Option<Hurry>> = const { RefCell::new(None) };
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static GAVE_UP: Cell<bool> = const { Cell::new(false) };
    static PATIENCE: Cell<Duration> = const { Cell::new(WRITER_PATIENCE) };
}

/// Does work whose waits on this thread end when the program has to.
pub(super) fn heeding<T>(hurry: &Hurry, work: impl FnOnce() -> T) -> T {
    HURRY.set(Some(hurry.clone()));
    let done = work();
    HURRY.set(None);
    done
}

/// Whether this thread's last wait ended because the program was told to stop.
pub(super) fn gave_up() -> bool {
    GAVE_UP.get()
}

/// How long this thread has waited in vain.
pub(super) fn patience() -> Duration {
    PATIENCE.get()
}

pub(super) fn wait_to_write(tries: i32) -> bool {
    wait(tries, WRITER_PATIENCE)
}

pub(super) fn wait_to_read(tries: i32) -> bool {
    wait(tries, READER_PATIENCE)
}

/// Waits a little longer each time, with a spread so that processes do not wait in step.
fn wait(tries: i32, patience: Duration) -> bool {
    PATIENCE.set(patience);
    let now = Instant::now();
    let since = if tries == 0 { now } else { SINCE.get().unwrap_or(now) };
    SINCE.set(Some(since));
    let must_end = HURRY.with_borrow(|hurry| hurry.as_ref().is_some_and(|hurry| hurry.is_over(since)));
    GAVE_UP.set(must_end);
    if must_end {
        return false;
    }
    let tries = u64::try_from(tries).unwrap_or(0);
    let spread = u64::from(std::process::id()).wrapping_add(tries.wrapping_mul(7)) % 5;
    std::thread::sleep(Duration::from_micros(100 * (tries.min(40) + 1) + 100 * spread));
    now.duration_since(since) < patience
}
