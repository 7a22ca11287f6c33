//! The text format of Prometheus: families in order, each with its help and type, and its series below.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What kind of number a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A name and its value.
pub type Label<'a> = (&'static str, &'a str);

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Page(BTreeMap<&'static str, String>);

impl Page {
    /// Begins a family, which may stay without series.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let text =
            self.0.entry(name).or_insert_with(|| format!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str()));
        Family { name, text }
    }

    /// The whole page.
    pub fn into_text(self) -> String {
        self.0.into_values().collect()
    }
}

/// Series of one name.
#[derive(Debug)]
pub struct Family<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Family<'_> {
    /// A series and its value.
    pub fn add(&mut self, labels: &[Label<'_>], value: f64) -> &mut Self {
        self.line("", labels, value)
    }

    fn line(&mut self, ending: &str, labels: &[Label<'_>], value: f64) -> &mut Self {
        let shown: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let shown = if shown.is_empty() { String::new() } else { format!("{{{}}}", shown.join(",")) };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}{ending}{shown} {value}", self.name);
        self
    }

    /// The buckets of a histogram, of which each counts what the ones before it count too.
    pub fn histogram(&mut self, labels: &[Label<'_>], buckets: &[(f64, u64)], sum: f64, count: u64) {
        for (limit, below) in buckets {
            let limit = limit.to_string();
            let with: Vec<Label<'_>> = labels.iter().copied().chain([("le", limit.as_str())]).collect();
            self.line("_bucket", &with, number(*below));
        }
        let with: Vec<Label<'_>> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.line("_bucket", &with, number(count));
        self.line("_sum", labels, sum);
        self.line("_count", labels, number(count));
    }
}

/// A count as Prometheus has it: exact up to 2^53.
pub fn number(count: u64) -> f64 {
    count as f64
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_as_prometheus_reads_it() {
        let mut page = Page::default();
        page.family("redrive_b", Kind::Gauge, "Second.").add(&[("source", "a\"\\\n")], 1.5);
        page.family("redrive_a_seconds", Kind::Histogram, "First.").histogram(
            &[("route", "/x")],
            &[(0.1, 1), (1.0, 2)],
            0.75,
            2,
        );
        let text = page.into_text();
        assert_eq!(
            text,
            "# HELP redrive_a_seconds First.\n# TYPE redrive_a_seconds histogram\n\
             redrive_a_seconds_bucket{route=\"/x\",le=\"0.1\"} 1\nredrive_a_seconds_bucket{route=\"/x\",le=\"1\"} 2\n\
             redrive_a_seconds_bucket{route=\"/x\",le=\"+Inf\"} 2\nredrive_a_seconds_sum{route=\"/x\"} 0.75\n\
             redrive_a_seconds_count{route=\"/x\"} 2\n\
             # HELP redrive_b Second.\n# TYPE redrive_b gauge\nredrive_b{source=\"a\\\"\\\\\\n\"} 1.5\n"
        );
    }
}
