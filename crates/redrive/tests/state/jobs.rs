//! Jobs for the tests of `redrive runs`: what was submitted, and what became of it in the past.

use redrive_core::failure::ErrorClass;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Fault, Run, Verdict};
use redrive_store::{OutsideCall, Recorded};
use serde_json::Value;

use crate::world::Past;

/// The ids of what was submitted, and whether each was there already.
pub fn ids(submitted: &Value) -> Vec<(String, bool)> {
    let run = |run: &Value| (run["id"].as_str().unwrap().to_owned(), run["existing"].as_bool().unwrap());
    submitted["runs"].as_array().unwrap().iter().map(run).collect()
}

pub fn ids_of(submitted: &Value) -> Vec<String> {
    ids(submitted).into_iter().map(|(id, _)| id).collect()
}

pub const SECTION: &str = "[process.replays]\ncategories = [\"a\", \"b\"]\nmax_in_flight = 2\nkeep = \"30d\"\n\
    [process.replays.retry]\nmax_attempts = 3\n";

impl Past<'_> {
    /// Claims the oldest jobs and fails them.
    pub fn fail(&self, count: u32, class: ErrorClass, message: &str) -> Vec<Run> {
        let policy = RetryPolicy { max_attempts: Some(3), ..RetryPolicy::process() };
        let fault = Fault { class, message: message.to_owned(), trace: None, retry_after: None };
        let end = End::Failed { fault, metrics: None, policy };
        self.end(count, &end)
    }

    pub fn complete(&self, count: u32) -> Vec<Run> {
        self.end(count, &End::Completed { verdict: Verdict::Passed, metrics: Some("{\"rows\":7}".to_owned()) })
    }

    pub fn end(&self, count: u32, end: &End) -> Vec<Run> {
        let claimed = self.wait(self.claim_jobs(count));
        assert_eq!(claimed.len(), usize::try_from(count).unwrap());
        for some in claimed.chunks(1000) {
            let ends: Vec<_> = some.iter().map(|run| (run.clone(), end.clone())).collect();
            self.wait(self.store.data().record(ends)).unwrap().into_iter().for_each(|outcome| drop(recorded(outcome)));
        }
        claimed
    }

    /// An outside worker asks for jobs of these categories.
    pub fn is_asked_for(&self, categories: &[&str]) {
        let asks_for = Some(categories.iter().map(|&category| category.to_owned()).collect());
        let call = OutsideCall { worker: "py".to_owned(), host: "here".to_owned(), asks_for };
        self.wait(self.store.data().meet(call)).unwrap();
    }

    pub fn submit_named(&self, categories: &[&str]) -> Vec<String> {
        self.wait(self.submit(categories)).iter().map(ToString::to_string).collect()
    }
}

pub fn recorded(recorded: Recorded) -> Run {
    match recorded {
        Recorded::As(run) => *run,
        other @ (Recorded::Refused(_) | Recorded::Lost) => panic!("{other:?}"),
    }
}
