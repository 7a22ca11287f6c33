//! The demo's jobs: submitted at the start, and counted as they go.

use std::collections::BTreeMap;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{Run, State, Work, Workload, label};
use redrive_store::{ControlStore, NewRun, RunPage, View};
use serde::Serialize;

use crate::error::Result;

/// The categories that `demo.toml` names, and how many jobs there are of each.
const CATEGORIES: [&str; 3] = ["any%", "100%", "glitchless"];
const OF_EACH: u32 = 100;

/// More than the demo has, so that one page is all.
const ALL: u32 = 10_000;

pub async fn submit(control: &ControlStore) -> Result<()> {
    let now = control.now();
    let job = |category: &str, nth: u32| {
        let work = Work::Process { category: category.to_owned(), external_id: Some(format!("replay-{nth}")) };
        NewRun::new(work, Some(format!(r#"{{"file":"replays/{nth}.bin"}}"#)), now)
    };
    let jobs = CATEGORIES.iter().flat_map(|category| (0..OF_EACH).map(move |nth| job(category, nth)));
    control.submit(jobs.collect()).await?;
    Ok(())
}

/// How all jobs stand at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobCensus {
    pub jobs: u64,
    /// Verdicts, and how many have each.
    pub verdicts: BTreeMap<&'static str, u64>,
    /// Of the jobs with a verdict: those that took more than one attempt.
    pub retried: u64,
    pub attempts: u64,
    #[serde(skip)]
    pub unfinished: u64,
    /// What will not be tried again by itself: why, and how many.
    pub stopped: BTreeMap<String, u64>,
}

impl JobCensus {
    pub async fn take(view: &View) -> Result<Self> {
        let page = RunPage { workload: Some(Workload::Process), limit: ALL, ..RunPage::default() };
        let mut census = Self::default();
        view.runs(page).await?.iter().for_each(|run| census.count(run));
        Ok(census)
    }

    fn count(&mut self, run: &Run) {
        self.jobs += 1;
        self.attempts += u64::from(run.attempt);
        match run.state {
            State::Done => {
                *self.verdicts.entry(label(run)).or_default() += 1;
                self.retried += u64::from(run.attempt > 1);
            }
            State::Dead => {
                let why = match run.error_class {
                    Some(ErrorClass::Final) | None => "final",
                    Some(ErrorClass::Retryable | ErrorClass::RateLimited) => "attempts_exhausted",
                };
                let message = run.error_message.as_deref().unwrap_or_default();
                *self.stopped.entry(format!("{why}: {message}")).or_default() += 1;
            }
            State::Storing | State::Queued | State::Running | State::Waiting => self.unfinished += 1,
        }
    }

    pub fn stopped(&self) -> u64 {
        self.stopped.values().sum()
    }

    /// Whether nothing more will happen by itself.
    pub fn is_settled(&self) -> bool {
        self.jobs > 0 && self.unfinished == 0
    }
}
