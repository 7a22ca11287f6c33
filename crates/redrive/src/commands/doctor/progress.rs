//! How far the looking has come, on a terminal's stderr.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    pub fn start(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} partitions {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar)
    }

    pub fn of(&self, all: u64) {
        self.0.set_length(all);
    }

    pub fn one_more(&self) {
        self.0.inc(1);
    }

    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
