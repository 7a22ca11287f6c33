//! Taking time, and showing what was found.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many a second.
pub fn rate(count: u64, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
    let count = count as f64;
    (count / took.as_secs_f64().max(1e-9)).round()
}

pub fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// Rounds a ratio for showing.
pub fn ratio(ours: f64, theirs: f64) -> f64 {
    (ours / theirs * 1000.0).round() / 1000.0
}

/// The middle and the far end of a set of times.
pub fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |hundredths: usize| times.get((times.len() * hundredths / 100).min(times.len().saturating_sub(1)));
    (at(50).copied().unwrap_or_default(), at(99).copied().unwrap_or_default())
}

/// Runs one phase with a word of what it is on stderr.
pub async fn phase<T>(
    quiet: bool,
    name: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, Duration)> {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    let start = Instant::now();
    let result = work.await;
    let took = start.elapsed();
    bar.finish_and_clear();
    Ok((result?, took))
}
