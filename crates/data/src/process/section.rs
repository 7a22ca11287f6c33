//! `[process.NAME]`: which categories, what handles them, and how they are retried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Work};
use redrive_store::{DataStore, Terms};

use super::workload::Recorder;
use super::{Discover, Handler, Workload};
use crate::worker;

/// How long an attempt may take unless its section says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The categories that are handled alike.
#[derive(Debug, Clone)]
pub struct Section {
    pub name: String,
    pub categories: Vec<String>,
    /// None where outside workers claim the jobs through the API.
    pub handler: Option<Arc<dyn Handler>>,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// The most attempts in flight at once, on all machines together.
    pub max_in_flight: Option<u32>,
    pub policy: RetryPolicy,
    /// Where new jobs are found.
    pub discover: Option<Arc<Discover>>,
}

impl Section {
    /// A section with the default time-out and policy, for code that embeds a worker.
    pub fn new(
        name: impl Into<String>,
        categories: impl IntoIterator<Item = impl Into<String>>,
        handler: impl Handler + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            categories: categories.into_iter().map(Into::into).collect(),
            handler: Some(Arc::new(handler)),
            timeout: TIMEOUT,
            max_in_flight: None,
            policy: RetryPolicy::process(),
            discover: None,
        }
    }
}

/// Two sections name one category.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the category {category:?} is in process.{first} and in process.{second}; it belongs to one section")]
pub struct TwiceServed {
    pub category: String,
    pub first: String,
    pub second: String,
}

/// All sections of a configuration, whichever of them a worker serves.
#[derive(Debug, Clone, Default)]
pub struct Sections {
    sections: Vec<Arc<Section>>,
    by_category: BTreeMap<String, Arc<Section>>,
}

impl Sections {
    pub fn new(sections: impl IntoIterator<Item = Section>) -> Result<Self, TwiceServed> {
        let mut all = Self::default();
        for section in sections.into_iter().map(Arc::new) {
            for category in &section.categories {
                let first = all.by_category.insert(category.clone(), Arc::clone(&section));
                if let Some(first) = first.filter(|first| !Arc::ptr_eq(first, &section)) {
                    let (first, second) = (first.name.clone(), section.name.clone());
                    return Err(TwiceServed { category: category.clone(), first, second });
                }
            }
            all.sections.push(section);
        }
        Ok(all)
    }

    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Section>> {
        self.sections.iter()
    }

    /// The section that names a category.
    pub fn of(&self, category: &str) -> Option<&Arc<Section>> {
        self.by_category.get(category)
    }

    /// All categories that some section names, in their order.
    pub fn categories(&self) -> impl Iterator<Item = &str> {
        self.by_category.keys().map(String::as_str)
    }

    /// Gives the policy of a job, whichever worker serves it; the default where no section names its category.
    pub fn policy(&self, run: &Run) -> RetryPolicy {
        self.of_run(run).map_or_else(RetryPolicy::process, |section| section.policy.clone())
    }

    /// Gives what a job is judged by that has outlived its lease. An outside worker's lease ends with the time that an attempt may take;
    /// this program's own workers end an attempt themselves then.
    pub fn terms(&self, run: &Run) -> Terms {
        let outside = self.of_run(run).filter(|section| section.handler.is_none());
        Terms { policy: self.policy(run), limit: outside.map(|section| section.timeout) }
    }

    fn of_run(&self, run: &Run) -> Option<&Arc<Section>> {
        match &run.work {
            Work::Process { category, .. } => self.of(category),
            Work::Extract(_) | Work::Ingest { .. } => None,
        }
    }

    /// The workloads of a worker that serves these sections: one for each that has a handler, so that none starves
    /// another. With `only`, a section is served in these of its categories. Must be called on a runtime: results are
    /// recorded by a task of their own.
    pub fn workloads(&self, data: &DataStore, only: Option<&[String]>) -> Vec<Arc<dyn worker::Workload>> {
        let all = Arc::new(self.clone());
        let recorder = Recorder::start_on(data.clone());
        let mut workloads: Vec<Arc<dyn worker::Workload>> = Vec::new();
        for section in &self.sections {
            let Some(handler) = &section.handler else { continue };
            let is_served = |category: &&String| only.is_none_or(|only| only.contains(category));
            let categories: Vec<String> = section.categories.iter().filter(is_served).cloned().collect();
            if !categories.is_empty() {
                let (data, section, handler) = (data.clone(), Arc::clone(section), Arc::clone(handler));
                let all = Arc::clone(&all);
                workloads.push(Arc::new(Workload::new(data, all, section, handler, categories, recorder.clone())));
            }
        }
        workloads
    }
}
