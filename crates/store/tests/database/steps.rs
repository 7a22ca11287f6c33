//! What most tests do on their way to what they are about.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement, Partition};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Fault, Run, Work, Workload};
use redrive_core::time::Timestamp;
use redrive_store::{ClaimedPartition, NewRun, Outcome, PartitionClaim, Recorded, Rotation, RunClaim};

use crate::support::{LEASE, Subject, key};

/// A claim of anything, by worker `w1`.
pub fn claim(limit: u32) -> PartitionClaim {
    PartitionClaim {
        limit,
        worker: "w1".to_owned(),
        lease: LEASE,
        sources: None,
        max_in_flight: BTreeMap::new(),
        at_most: BTreeMap::new(),
        rotation: Rotation::default(),
    }
}

pub fn job_claim(limit: u32) -> RunClaim {
    RunClaim { workload: Workload::Process, categories: None, limit, worker: "w1".to_owned(), lease: LEASE }
}

pub fn accepted(records: u64) -> Judgement {
    Judgement::Accepted { records }
}

pub fn rejected(class: ErrorClass, message: &str) -> Judgement {
    Judgement::Rejected { class, message: message.to_owned(), not_before: None }
}

pub fn fault(class: ErrorClass, retry_after: Option<Duration>) -> End {
    fault_under(RetryPolicy::process(), class, retry_after)
}

pub fn fault_under(policy: RetryPolicy, class: ErrorClass, retry_after: Option<Duration>) -> End {
    let (message, trace) = ("boom".to_owned(), Some("at line 1".to_owned()));
    End::Failed { fault: Fault { class, message, trace, retry_after }, metrics: None, policy }
}

/// An archive to be ingested.
pub fn upload(submitted_at: Timestamp) -> NewRun {
    NewRun::new(Work::Ingest { upload: "etc.tar.gz".to_owned() }, None, submitted_at)
}

/// A job with an external id.
pub fn named_job(category: &str, external_id: &str, submitted_at: Timestamp) -> NewRun {
    let (category, external_id) = (category.to_owned(), Some(external_id.to_owned()));
    NewRun::new(Work::Process { category, external_id }, None, submitted_at)
}

pub fn retry(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Retry { policy, clear_terminal: false, stale: false }
}

pub fn mark(threshold: u32) -> ControlEvent<'static> {
    ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold }
}

pub fn pause() -> ControlEvent<'static> {
    ControlEvent::Pause { by: "ada", why: None }
}

/// Customers of one source, each with one query and `days` days.
pub fn keys(source: &str, customers: &[&str], days: usize) -> Vec<PartitionKey> {
    let dates = (0..days).map(|day| format!("{:04}-{:02}-{:02}", 1900 + day / 336, day / 28 % 12 + 1, day % 28 + 1));
    dates.flat_map(|date| customers.iter().map(move |customer| key(source, customer, "daily", &date))).collect()
}

impl Subject {
    pub async fn want(&self, lane: Lane, keys: Vec<PartitionKey>) {
        let count = keys.len();
        let wanted = keys.into_iter().map(|key| self.wanted(key, lane)).collect();
        assert_eq!(self.store.control().enqueue(None, wanted).await.unwrap(), vec![true; count]);
    }

    pub async fn claim(&self, limit: u32) -> Vec<ClaimedPartition> {
        self.store.data().claim_partitions(claim(limit)).await.unwrap().0
    }

    pub async fn read(&self, key: &PartitionKey) -> Partition {
        self.store.view().partition(key).await.unwrap().unwrap()
    }

    pub async fn judge(&self, run: &Run, judgement: Judgement) -> Recorded {
        self.store.data().judge(run, judgement, None).await.unwrap()
    }

    /// Wants, claims and judges these partitions, and no others may be wanted.
    pub async fn judged(&self, keys: Vec<PartitionKey>, judgement: Judgement) -> Vec<Partition> {
        let limit = u32::try_from(keys.len()).unwrap();
        self.want(Lane::Fresh, keys.clone()).await;
        let claimed = self.claim(limit).await;
        assert_eq!(claimed.len(), keys.len());
        for recorded in join_all(claimed.iter().map(|claimed| self.judge(&claimed.run, judgement.clone()))).await {
            assert!(matches!(recorded, Recorded::As(_)), "{recorded:?}");
        }
        join_all(keys.iter().map(|key| self.read(key))).await
    }

    pub async fn failed(&self, key: &PartitionKey) -> Partition {
        self.judged(vec![key.clone()], rejected(ErrorClass::Retryable, "boom")).await.remove(0)
    }

    /// Puts one event to a partition as it is now.
    pub async fn ask(&self, key: &PartitionKey, event: ControlEvent<'_>) -> Outcome {
        let now = self.read(key).await;
        self.put(now, event).await
    }

    /// Puts one event to a partition as it was read.
    pub async fn put(&self, read: Partition, event: ControlEvent<'_>) -> Outcome {
        let operation = self.operation("test");
        self.store.control().commit(&operation, vec![(read, event)]).await.unwrap().remove(0)
    }

    /// Submits a job for each category, submitted one second after another.
    pub async fn submit(&self, categories: &[&str]) -> Vec<redrive_core::id::RunId> {
        let jobs = categories.iter().zip(0..).map(|(category, second)| {
            NewRun::job(*category, None, self.now().saturating_add(Duration::from_secs(second)))
        });
        let submitted = self.store.control().submit(jobs.collect()).await.unwrap();
        submitted.into_iter().map(|submitted| submitted.run_id).collect()
    }

    pub async fn claim_jobs(&self, limit: u32) -> Vec<Run> {
        let claimed = self.store.data().claim_runs(job_claim(limit)).await.unwrap();
        claimed.into_iter().map(|claimed| claimed.run).collect()
    }

    /// Records what became of one job.
    pub async fn report(&self, run: &Run, report: End) -> Recorded {
        self.store.data().record(vec![(run.clone(), report)]).await.unwrap().remove(0)
    }

    pub async fn run(&self, id: redrive_core::id::RunId) -> Run {
        self.store.view().run(id).await.unwrap().unwrap()
    }
}

/// The run as it was recorded, where it was.
pub fn recorded(recorded: Recorded) -> Run {
    match recorded {
        Recorded::As(run) => run,
        Recorded::Refused(_) | Recorded::Lost => panic!("not recorded: {recorded:?}"),
    }
}

pub fn changed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Changed { .. })
}
