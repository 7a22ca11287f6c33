//! How often something took how long.

use std::time::Duration;

use super::text::{Family, Label};

/// Counts by how long something took. The limits, in seconds, rise.
#[derive(Debug, Clone)]
pub struct Histogram {
    limits: &'static [f64],
    /// How many are above the limit before and not above this one; at the end those above all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub fn new(limits: &'static [f64]) -> Self {
        Self { limits, counts: vec![0; limits.len() + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let nth = self.limits.partition_point(|limit| *limit < seconds);
        self.counts[nth] += 1;
        self.sum += seconds;
    }

    /// Writes its buckets, of which each counts what the ones before it count too.
    pub fn write(&self, family: &mut Family<'_>, labels: &[Label<'_>]) {
        let mut below = 0;
        let mut buckets = Vec::with_capacity(self.limits.len());
        for (limit, count) in self.limits.iter().zip(&self.counts) {
            below += count;
            buckets.push((*limit, below));
        }
        family.histogram(labels, &buckets, self.sum, self.counts.iter().sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Kind, Page};

    #[test]
    fn what_took_exactly_a_limit_is_below_it() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for millis in [100, 500, 501, 1000, 1001] {
            histogram.observe(Duration::from_millis(millis));
        }
        let mut page = Page::default();
        histogram.write(&mut page.family("redrive_x_seconds", Kind::Histogram, "X."), &[]);
        let text = page.into_text();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "redrive_x_seconds_bucket{le=\"0.5\"} 2",
            "redrive_x_seconds_bucket{le=\"1\"} 4",
            "redrive_x_seconds_bucket{le=\"+Inf\"} 5",
            "redrive_x_seconds_sum 3.102",
            "redrive_x_seconds_count 5",
        ];
        assert_eq!(lines, expected);
    }
}
