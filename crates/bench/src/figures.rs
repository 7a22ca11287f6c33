//! What a measurement found: as JSON for scripts, as a table for people.

use serde::Serialize;

use crate::{conf, extract, partitions, queue, state};

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    Queue(queue::QueueFigures),
    State(state::StateFigures),
    Extract(extract::ExtractFigures),
    Partitions(partitions::PartitionFigures),
    Conf(conf::ConfFigures),
}

/// The figures as people read them.
#[derive(Debug)]
pub struct Summary {
    pub heading: String,
    pub columns: [&'static str; 4],
    pub rows: Vec<[String; 4]>,
    /// Lines below the table.
    pub notes: Vec<String>,
}

impl Figures {
    pub fn summary(&self) -> Summary {
        match self {
            Self::Queue(figures) => figures.summary(),
            Self::State(figures) => figures.summary(),
            Self::Extract(figures) => figures.summary(),
            Self::Partitions(figures) => figures.summary(),
            Self::Conf(figures) => figures.summary(),
        }
    }

    /// Whether the database did the work in the way that it is meant to.
    pub fn is_good(&self) -> bool {
        match self {
            Self::State(figures) => !figures.sequential_scan,
            Self::Queue(_) | Self::Extract(_) | Self::Partitions(_) | Self::Conf(_) => true,
        }
    }
}

/// A row with a rate, and where there is a baseline, its rate and the ratio.
pub(crate) fn compared(name: &str, unit: &str, ours: f64, theirs: Option<f64>, ratio: Option<f64>) -> [String; 4] {
    [
        name.to_owned(),
        format!("{ours:.0}{unit}"),
        theirs.map_or_else(String::new, |theirs| format!("{theirs:.0}{unit}")),
        ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
    ]
}

/// A row with nothing to compare it with.
pub(crate) fn alone(name: impl Into<String>, value: impl Into<String>) -> [String; 4] {
    [name.into(), value.into(), String::new(), String::new()]
}
