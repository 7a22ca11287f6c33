//! Who of an attempt's programs is still there, and what they said last.
//!
//! An attempt waits for its own programs, whichever way its extraction ended, and for nobody else's.

use tokio::sync::watch;

/// The programs of one attempt, or of many together.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    here: watch::Sender<Present>,
    /// Where they are counted as well.
    whole: Option<watch::Sender<Present>>,
}

#[derive(Debug, Default)]
struct Present {
    count: usize,
    said: Option<String>,
}

impl Roster {
    /// One whose programs are also counted here.
    pub fn part(&self) -> Self {
        Self { here: watch::Sender::default(), whole: Some(self.here.clone()) }
    }

    /// Returns when none is left: at once, or within seconds of their being told to end.
    pub async fn ended(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.here.subscribe().wait_for(|present| present.count == 0).await;
    }

    /// The last lines on stderr of the program that was started last, once it has ended.
    pub fn said(&self) -> Option<String> {
        self.here.borrow().said.clone()
    }

    /// Counts a program, or whoever listens to it, until the entry is dropped.
    pub(super) fn enter(&self) -> Entry {
        self.here.send_modify(|present| *present = Present { count: present.count + 1, said: None });
        if let Some(whole) = &self.whole {
            whole.send_modify(|present| present.count += 1);
        }
        Entry(self.clone())
    }
}

#[derive(Debug)]
pub(super) struct Entry(Roster);

impl Entry {
    pub(super) fn heard(&self, lines: Option<String>) {
        self.0.here.send_modify(|present| present.said = lines);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        for counted in [Some(&self.0.here), self.0.whole.as_ref()].into_iter().flatten() {
            counted.send_modify(|present| present.count -= 1);
        }
    }
}
