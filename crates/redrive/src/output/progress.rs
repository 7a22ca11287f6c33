//! Shows on stderr how far a command has come. Indicatif hides it where stderr is no terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(250);
/// What takes less than this needs no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// What there is to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The name of the phase that is under way.
    Phases,
    /// How many partitions of how many.
    Partitions,
    /// How many partitions, when their number is not known beforehand. Appears only after a second.
    Changes,
    /// A message, and how many bytes of jobs were read. Appears only after a second.
    Jobs,
    /// The same, as a part of a file. Appears only after a second.
    JobsOfFile,
    /// How many bytes of how many. Appears only after a second.
    Bytes,
    /// A bar with a message.
    Bar,
}

impl Style {
    fn template(self) -> &'static str {
        match self {
            Self::Phases => "{spinner} {msg} {elapsed}",
            Self::Partitions => "{spinner} {pos}/{len} partitions {elapsed}",
            Self::Changes => "{spinner} {human_pos} partitions, {per_sec}, {elapsed}",
            Self::Jobs => "{spinner} {msg}, {bytes}, {elapsed}",
            Self::JobsOfFile => "{elapsed:>4} [{bar:30}] {percent:>3} %  {msg}, {eta} left",
            Self::Bytes => "{spinner} {msg} {bytes}/{total_bytes}, {bytes_per_sec}, {elapsed}",
            Self::Bar => "{elapsed:>4} [{bar:30}] {pos}/{len}  {msg}",
        }
    }
}

/// Disappears from the screen when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// Whether it waits for its time to appear.
    waiting: AtomicBool,
}

impl Progress {
    pub fn start(style: Style, quiet: bool) -> Self {
        let waiting = matches!(style, Style::Changes | Style::Jobs | Style::JobsOfFile | Style::Bytes) && !quiet;
        let target = if quiet || waiting { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template(style.template()) {
            bar.set_style(style);
        }
        match style {
            Style::Phases | Style::Partitions => bar.enable_steady_tick(TICK),
            Style::Changes | Style::Jobs | Style::JobsOfFile | Style::Bytes | Style::Bar => {}
        }
        Self { bar, begun: Instant::now(), waiting: AtomicBool::new(waiting) }
    }

    /// Sets how many there are in all.
    pub fn of(&self, all: u64) {
        self.bar.set_length(all);
    }

    pub fn to(&self, done: u64) {
        if self.begun.elapsed() > PATIENCE && self.waiting.swap(false, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }

    pub fn one_more(&self) {
        self.bar.inc(1);
    }

    pub fn message(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Takes it off the screen, for a question or the result.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
