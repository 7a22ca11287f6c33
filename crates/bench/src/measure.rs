//! Taking time.

use std::time::{Duration, Instant};

use crate::Result;

/// Called with a phase's name when it begins.
pub type OnPhase<'a> = &'a (dyn Fn(&'static str) + Send + Sync);

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

/// Runs one phase and says how long it took.
pub async fn phase<T>(
    on_phase: OnPhase<'_>,
    name: &'static str,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Duration)> {
    on_phase(name);
    let start = Instant::now();
    let result = work.await?;
    Ok((result, start.elapsed()))
}
