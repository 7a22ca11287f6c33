//! Which programs of an attempt are still there, and the last lines that they wrote on stderr.
//!
//! An attempt waits for its own programs, whichever way its work ended, and for no others.

use tokio::sync::watch;

/// The programs of one attempt, or of many together.
#[derive(Debug, Clone, Default)]
pub struct ChildTracker {
    own: watch::Sender<Present>,
    /// Counts the programs of all children together.
    parent: Option<watch::Sender<Present>>,
}

#[derive(Debug, Default)]
struct Present {
    count: usize,
    last_stderr: Option<LastWords>,
}

/// What a program wrote on stderr at its end, without secrets.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// Its last lines, as they go into a message.
    pub(super) lines: Option<String>,
    /// All that was kept.
    pub(super) whole: String,
}

impl ChildTracker {
    /// A tracker whose programs are also counted in this one.
    pub fn child(&self) -> Self {
        Self { own: watch::Sender::default(), parent: Some(self.own.clone()) }
    }

    /// Returns when none is left: at once, or within seconds of their being told to end.
    pub async fn ended(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.own.subscribe().wait_for(|present| present.count == 0).await;
    }

    /// The last lines on stderr of the program that was started last, once it has ended.
    pub fn last_stderr(&self) -> Option<String> {
        self.own.borrow().last_stderr.as_ref()?.lines.clone()
    }

    /// All that was kept of that program's stderr, line by line.
    pub(crate) fn whole_stderr(&self) -> Option<String> {
        self.own.borrow().last_stderr.as_ref().map(|words| words.whole.clone()).filter(|whole| !whole.is_empty())
    }

    /// Counts a program, or the task that reads its stderr, until the guard is dropped.
    pub(super) fn track(&self) -> ChildGuard {
        self.own.send_modify(|present| *present = Present { count: present.count + 1, last_stderr: None });
        if let Some(parent) = &self.parent {
            parent.send_modify(|present| present.count += 1);
        }
        ChildGuard(self.clone())
    }
}

#[derive(Debug)]
pub(super) struct ChildGuard(ChildTracker);

impl ChildGuard {
    pub(super) fn keep_last_stderr(&self, words: LastWords) {
        self.0.own.send_modify(|present| present.last_stderr = Some(words));
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        for counted in [Some(&self.0.own), self.0.parent.as_ref()].into_iter().flatten() {
            counted.send_modify(|present| present.count -= 1);
        }
    }
}
