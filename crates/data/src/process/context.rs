//! What a handler has beside its job: word that its attempt is over, and a place for what it says on the way.

use std::sync::{Mutex, OnceLock, PoisonError};

use redrive_core::failure::MAX_TRACE_BYTES;
use redrive_core::text::ELLIPSIS;
use tokio::sync::watch;

use crate::program::ChildTracker;

/// How much of a handler's output is kept, from its end. Stderr has the rest of what a run's trace may hold.
const KEPT: usize = 16 << 10;

/// One attempt, as its handler sees it. The worker keeps the lease; a handler has nothing to do for that.
#[derive(Debug)]
pub struct Context {
    /// The programs of the whole section.
    programs: ChildTracker,
    /// Made when the handler starts its first program.
    children: OnceLock<ChildTracker>,
    /// Made when the handler first asks.
    over: OnceLock<watch::Sender<bool>>,
    output: Mutex<Output>,
}

#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Context {
    pub(super) fn new(programs: ChildTracker) -> Self {
        Self { programs, children: OnceLock::new(), over: OnceLock::new(), output: Mutex::default() }
    }

    /// Gives word of the attempt's end to what goes on beside the handler's own future, such as a thread: that future
    /// itself is simply dropped.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(self.over.get_or_init(|| watch::channel(false).0).subscribe())
    }

    /// Keeps a piece of output. If the attempt fails, the end of all of it goes into the run's trace, without secrets.
    pub fn keep_output(&self, piece: &[u8]) {
        // What is inside is whole whenever the lock is free, also after a panic.
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.is_cut |= piece.len() > KEPT;
        output.bytes.extend_from_slice(&piece[piece.len().saturating_sub(KEPT)..]);
        // Twice as much may pile up, so that not every piece moves all of it.
        if output.bytes.len() > 2 * KEPT {
            output.forget();
        }
    }

    /// Counts the programs that the handler starts for this attempt.
    pub(crate) fn children(&self) -> &ChildTracker {
        self.children.get_or_init(|| self.programs.child())
    }

    /// Returns when no program of this attempt is left.
    pub(super) async fn programs_ended(&self) {
        if let Some(children) = self.children.get() {
            children.ended().await;
        }
    }

    /// The last lines on stderr of the program that was started last, as they go into a message.
    pub(super) fn last_stderr(&self) -> Option<String> {
        self.children.get()?.last_stderr()
    }

    /// What was said on the way, from its end; none where nothing was. Its programs have ended. Output that stands here
    /// is not yet free of secrets.
    pub(super) fn trace(&self) -> Option<String> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.forget();
        let text = String::from_utf8_lossy(&output.bytes);
        // Half a character would hide from the redactor what follows it.
        let mark = if output.is_cut { String::from(ELLIPSIS) } else { String::new() };
        let stdout = format!("{mark}{}", text.trim_start_matches(char::REPLACEMENT_CHARACTER));
        let stderr = self.children.get().and_then(ChildTracker::whole_stderr).unwrap_or_default();
        match (stdout.trim().is_empty(), stderr.trim().is_empty()) {
            (true, true) => None,
            (true, false) => Some(stderr),
            (false, true) => Some(stdout),
            (false, false) => {
                let both = format!("stdout:\n{}\nstderr:\n", stdout.trim_end());
                let stderr = end_of(&stderr, MAX_TRACE_BYTES.saturating_sub(both.len()));
                Some(both + &stderr)
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(over) = self.over.get() {
            over.send_replace(true);
        }
    }
}

impl Output {
    fn forget(&mut self) {
        let surplus = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..surplus);
        self.is_cut |= surplus > 0;
    }
}

/// The end of a text, as much as fits into so many bytes: what a program says last says most.
fn end_of(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut start = text.len() - limit.saturating_sub(ELLIPSIS.len_utf8());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("{ELLIPSIS}{}", &text[start..])
}

/// Says when an attempt is over, whichever way it ended.
#[derive(Debug, Clone)]
pub struct Cancellation(watch::Receiver<bool>);

impl Cancellation {
    pub fn is_over(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns when the attempt is over.
    pub async fn over(&mut self) {
        let _ = self.0.wait_for(|over| *over).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_on_beside_an_attempt_hears_of_its_end() {
        let context = Context::new(ChildTracker::default());
        let mut cancellation = context.cancellation();
        let thread = { context.cancellation() };
        assert!(!cancellation.is_over() && !thread.is_over());
        drop(context);
        cancellation.over().await;
        assert!(thread.is_over());
    }

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let context = Context::new(ChildTracker::default());
        assert_eq!(context.trace(), None);
        context.keep_output("é".repeat(KEPT).as_bytes());
        for _ in 0..1000 {
            context.keep_output(&vec![b'x'; 999]);
        }
        context.keep_output(b"the end\n");
        let trace = context.trace().unwrap();
        assert!(trace.len() <= KEPT + ELLIPSIS.len_utf8() && trace.starts_with("…x") && trace.ends_with("the end\n"));
        assert!(context.output.lock().unwrap().bytes.capacity() <= 4 * KEPT);
    }
}
