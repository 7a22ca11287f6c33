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

/// A figure of each round of a measurement.
#[derive(Debug, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    pub fn add(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// None where there was no round.
    pub fn median(&self) -> Option<f64> {
        median(self.0.clone())
    }

    /// The median of what each round makes beside the same round of the others, which met the same moment of a busy machine.
    pub fn median_ratio(&self, others: &Self) -> Option<f64> {
        median(self.0.iter().zip(&others.0).map(|(ours, theirs)| ratio(*ours, *theirs)).collect())
    }
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    let upper = *figures.get(figures.len() / 2)?;
    let lower = *figures.get((figures.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(figures: &[f64]) -> Rounds {
        Rounds(figures.to_vec())
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(rounds(&[]).median(), None);
        assert_eq!(rounds(&[9.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(rounds(&[9.0, 1.0, 2.0, 4.0]).median(), Some(3.0));
    }

    #[test]
    fn a_ratio_compares_rounds_of_the_same_moment() {
        // The second round met a busy machine: the medians alone would say three times as fast.
        assert_eq!(rounds(&[40.0, 4.0, 60.0]).median_ratio(&rounds(&[20.0, 2.0, 13.0])), Some(2.0));
        assert_eq!(rounds(&[40.0]).median_ratio(&rounds(&[])), None);
    }
}
