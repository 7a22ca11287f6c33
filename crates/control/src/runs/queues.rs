//! What the configuration says about jobs, section by section.

use std::time::Duration;

use redrive_core::retry::RetryPolicy;

/// A `[process.NAME]` section, as far as the control plane is concerned.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: String,
    pub categories: Vec<String>,
    /// Whether a worker handles its jobs by a command or a URL; otherwise outside workers claim them.
    pub has_handler: bool,
    pub max_in_flight: Option<u32>,
    pub retry: RetryPolicy,
    /// How long its finished runs are kept; none means for ever.
    pub keep: Option<Duration>,
}

/// All sections. A category belongs to one of them.
#[derive(Debug, Clone, Default)]
pub struct Queues(Vec<Queue>);

impl Queues {
    pub fn new(sections: Vec<Queue>) -> Self {
        Self(sections)
    }

    /// The section that serves a category.
    pub fn of(&self, category: &str) -> Option<&Queue> {
        self.0.iter().find(|queue| queue.categories.iter().any(|served| served == category))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.0.iter()
    }
}
