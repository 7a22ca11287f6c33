//! The one place where the parts of a process report what they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use super::event::{AttemptEnded, Event, Op, Outcome, Queue};
use super::histogram::Histogram;
use super::names::{NameId, Names};
use super::text::{Kind, Page, number};

/// From a job that does nothing to an extraction of an hour; in seconds, like all limits here.
const ATTEMPTS: [f64; 11] = [0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];
/// From a worker that is free to a backlog of a day.
const WAITS: [f64; 11] = [0.01, 0.1, 1.0, 5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0, 21_600.0, 86_400.0];
const DELAYS: [f64; 9] = [1.0, 10.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 21_600.0, 86_400.0];
const CALLS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// What this process has done since it began. A copy counts into the same numbers.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    work: Mutex<Work>,
    calls: Mutex<BTreeMap<Op, Histogram>>,
    last_pass: Mutex<Option<Timestamp>>,
}

/// Which attempts are counted together.
type Attempt = (Workload, NameId, Outcome, Option<ErrorClass>);

#[derive(Debug, Default)]
struct Work {
    names: Names,
    attempts: BTreeMap<Attempt, u64>,
    durations: BTreeMap<Workload, Histogram>,
    waits: BTreeMap<Queue, Histogram>,
    delays: BTreeMap<Workload, Histogram>,
    exhausted: BTreeMap<Workload, u64>,
    leases_lost: BTreeMap<Workload, u64>,
    deliveries_lost: u64,
}

impl Metrics {
    /// Counts what was committed.
    pub fn report(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut work = lock(&self.0.work);
        events.into_iter().for_each(|event| work.add(event));
    }

    /// Counts a call of the store, by how long its caller waited for it.
    pub fn called(&self, op: Op, took: Duration) {
        lock(&self.0.calls).entry(op).or_insert_with(|| Histogram::new(&CALLS)).observe(took);
    }

    /// Keeps when the daemon last went through everything.
    pub fn daemon_passed(&self, at: Timestamp) {
        *lock(&self.0.last_pass) = Some(at);
    }

    /// Writes all of it.
    pub fn write(&self, page: &mut Page) {
        lock(&self.0.work).write(page);
        let help = "How long callers waited for the database.";
        let mut family = page.family("redrive_store_duration_seconds", Kind::Histogram, help);
        for (op, histogram) in &*lock(&self.0.calls) {
            histogram.write(&mut family, &[("op", op.as_str())]);
        }
        let help = "When the daemon of this process last went through everything.";
        let mut family = page.family("redrive_daemon_last_pass_timestamp_seconds", Kind::Gauge, help);
        if let Some(at) = *lock(&self.0.last_pass) {
            family.add(&[], seconds(at));
        }
    }

    /// Writes what kind of process this is.
    pub fn write_build(page: &mut Page, version: &str) {
        let help = "The version of this process; always 1.";
        page.family("redrive_build_info", Kind::Gauge, help).add(&[("version", version)], 1.0);
    }
}

impl Work {
    fn add(&mut self, event: Event) {
        match event {
            Event::AttemptEnded(AttemptEnded { workload, source, outcome, class, took }) => {
                let place = self.names.place(&source);
                *self.attempts.entry((workload, place, outcome, class)).or_default() += 1;
                if let Some(took) = took {
                    self.durations.entry(workload).or_insert_with(|| Histogram::new(&ATTEMPTS)).observe(took);
                }
            }
            Event::Taken { queue, waited } => {
                self.waits.entry(queue).or_insert_with(|| Histogram::new(&WAITS)).observe(waited);
            }
            Event::RetryIn { workload, delay } => {
                self.delays.entry(workload).or_insert_with(|| Histogram::new(&DELAYS)).observe(delay);
            }
            Event::RetriesExhausted { workload } => *self.exhausted.entry(workload).or_default() += 1,
            Event::LeaseLost { workload } => *self.leases_lost.entry(workload).or_default() += 1,
            Event::DeliveryLost => self.deliveries_lost += 1,
        }
    }

    fn write(&self, page: &mut Page) {
        let help = "Attempts that ended. The source of a job is its category; names beyond the first 64 are `other`.";
        let mut family = page.family("redrive_attempts_total", Kind::Counter, help);
        for ((workload, place, outcome, class), count) in &self.attempts {
            let class = class.map_or("", ErrorClass::as_str);
            let source = self.names.name(*place);
            let (workload, outcome) = (workload.as_str(), outcome.as_str());
            let labels = [("workload", workload), ("source", source), ("outcome", outcome), ("class", class)];
            family.add(&labels, number(*count));
        }
        self.write_histograms(page);
        // Written from the beginning, so that the first increase is seen as one.
        let help = "Failed attempts that were the last which the policy allows.";
        let mut family = page.family("redrive_retries_exhausted_total", Kind::Counter, help);
        for &workload in Workload::ALL {
            family.add(&[("workload", workload.as_str())], count_of(&self.exhausted, workload));
        }
        let help = "Leases that ran out.";
        let mut family = page.family("redrive_lease_lost_total", Kind::Counter, help);
        for &workload in Workload::ALL {
            family.add(&[("workload", workload.as_str())], count_of(&self.leases_lost, workload));
        }
        let help = "Claims that were sent to an outside worker which never spoke.";
        page.family("redrive_delivery_lost_total", Kind::Counter, help).add(&[], number(self.deliveries_lost));
    }

    fn write_histograms(&self, page: &mut Page) {
        let help = "How long attempts took, from their claim to their end.";
        let mut family = page.family("redrive_attempt_duration_seconds", Kind::Histogram, help);
        for (workload, histogram) in &self.durations {
            histogram.write(&mut family, &[("workload", workload.as_str())]);
        }
        let help = "How long work waited for a worker: partitions by lane, the first tries of runs by workload.";
        let mut family = page.family("redrive_wait_duration_seconds", Kind::Histogram, help);
        // Lanes are there from the beginning: nothing taken is a finding, too.
        let empty = Histogram::new(&WAITS);
        for queue in queues() {
            self.waits.get(&queue).unwrap_or(&empty).write(&mut family, &[("lane", queue.as_str())]);
        }
        let help = "How long what failed has to wait for its next try.";
        let mut family = page.family("redrive_retry_delay_seconds", Kind::Histogram, help);
        for (workload, histogram) in &self.delays {
            histogram.write(&mut family, &[("workload", workload.as_str())]);
        }
    }
}

/// Every queue there is. An extraction is queued in its lane.
fn queues() -> impl Iterator<Item = Queue> {
    let runs = [Workload::Ingest, Workload::Process].map(Queue::Runs);
    Lane::ALL.iter().copied().map(Queue::Lane).chain(runs)
}

fn count_of(counts: &BTreeMap<Workload, u64>, workload: Workload) -> f64 {
    number(counts.get(&workload).copied().unwrap_or(0))
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::from_micros(0)).as_secs_f64()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole whenever the lock is free, also after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(metrics: &Metrics) -> Vec<String> {
        let mut page = Page::default();
        metrics.write(&mut page);
        page.into_text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn ended(source: &str, outcome: Outcome, class: Option<ErrorClass>) -> Event {
        let took = Some(Duration::from_secs(2));
        Event::AttemptEnded(AttemptEnded { workload: Workload::Extract, source: source.into(), outcome, class, took })
    }

    #[test]
    fn what_was_reported_is_on_the_page() {
        let metrics = Metrics::default();
        let retryable = Some(ErrorClass::Retryable);
        metrics.report(vec![
            ended("ads", Outcome::Success, None),
            ended("ads", Outcome::Failed, retryable),
            ended("ads", Outcome::Failed, retryable),
            Event::Taken { queue: Queue::Lane(Lane::Retry), waited: Duration::from_millis(50) },
            Event::RetryIn { workload: Workload::Process, delay: Duration::from_secs(60) },
            Event::RetriesExhausted { workload: Workload::Ingest },
            Event::LeaseLost { workload: Workload::Extract },
            Event::DeliveryLost,
        ]);
        metrics.called(Op::Claim, Duration::from_millis(3));
        metrics.daemon_passed(Timestamp::from_micros(1_500_000));
        let page = page(&metrics.clone());
        for line in [
            "redrive_attempts_total{workload=\"extract\",source=\"ads\",outcome=\"success\",class=\"\"} 1",
            "redrive_attempts_total{workload=\"extract\",source=\"ads\",outcome=\"failed\",class=\"retryable\"} 2",
            "redrive_attempt_duration_seconds_sum{workload=\"extract\"} 6",
            "redrive_wait_duration_seconds_bucket{lane=\"retry\",le=\"0.1\"} 1",
            "redrive_wait_duration_seconds_count{lane=\"fresh\"} 0",
            "redrive_retry_delay_seconds_bucket{workload=\"process\",le=\"60\"} 1",
            "redrive_retries_exhausted_total{workload=\"ingest\"} 1",
            "redrive_retries_exhausted_total{workload=\"process\"} 0",
            "redrive_lease_lost_total{workload=\"extract\"} 1",
            "redrive_delivery_lost_total 1",
            "redrive_store_duration_seconds_bucket{op=\"claim\",le=\"0.005\"} 1",
            "redrive_daemon_last_pass_timestamp_seconds 1.5",
        ] {
            assert!(page.iter().any(|found| found == line), "{line} is not in {page:#?}");
        }
    }

    #[test]
    fn a_thousand_sources_make_few_series() {
        let metrics = Metrics::default();
        for nth in 0..1000 {
            metrics.report(vec![ended(&format!("source-{nth}"), Outcome::Success, None)]);
        }
        let attempts: Vec<String> =
            page(&metrics).into_iter().filter(|line| line.starts_with("redrive_attempts_total")).collect();
        assert_eq!(attempts.len(), super::super::MOST_NAMES + 1);
        assert!(attempts.iter().any(|line| line.contains("source=\"other\"") && line.ends_with(" 936")));
    }
}
