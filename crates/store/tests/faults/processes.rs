//! Eight processes on one SQLite file, some of them killed in the middle of it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::partition::{ControlEvent, Judgement, Status};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, State, Verdict, Workload};
use redrive_store::clock::{Clock, ManualClock, SystemClock};
use redrive_store::{ClaimedRun, DataStore, Open, Options, Outcome, Page, Recorded, Store};

use crate::child;
use crate::support::{
    Place, assert_integrity, assert_whole, claim_partitions, claim_runs, count_in, eventually, job, open, operation,
    sqlite, wanted, with_clock,
};

const PROCESSES: usize = 8;

/// What a child is told: where to work, what to call itself, how long, and where to tell what was acknowledged.
struct Orders {
    file: PathBuf,
    name: String,
    rounds: u32,
    /// Whether it keeps what it claimed first until the end.
    hold: bool,
}

impl Orders {
    fn write(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.file.display(), self.name, self.rounds, self.hold)
    }

    fn read(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let [file, name, rounds, hold] = lines[..] else { panic!("{text:?} is no order") };
        Self { file: file.into(), name: name.to_owned(), rounds: rounds.parse().unwrap(), hold: hold.parse().unwrap() }
    }

    fn report(&self) -> PathBuf {
        self.file.with_file_name(format!("{}.report", self.name))
    }

    fn stop(&self) -> PathBuf {
        self.file.with_file_name("stop")
    }

    fn start(&self) -> Child {
        child::command("processes::child", self.write()).spawn().unwrap()
    }

    /// The ids that this child was told had been written, by the word it used for them.
    fn told(&self, word: &str) -> Vec<String> {
        let text = fs::read_to_string(self.report()).unwrap_or_default();
        // A line without its end was cut off by the kill.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(order) = child::order() else { return };
    let orders = Orders::read(&order);
    let mut report = OpenOptions::new().create(true).append(true).open(orders.report()).unwrap();
    let mut tell = |word: &str, id: &dyn std::fmt::Display| writeln!(report, "{word} {id}").unwrap();
    let store = Store::open(&sqlite(&orders.file), Open::Migrate, Options::default()).await.unwrap();
    let (control, data, view) = (store.control(), store.data(), store.view());
    let name = orders.name.as_str();
    let policy = RetryPolicy::partitions();
    let mut held = Vec::new();
    for round in 0..orders.rounds {
        if orders.stop().exists() {
            break;
        }
        let jobs = [format!("{name}-{round}-a"), format!("{name}-{round}-b"), format!("shared-{round}")];
        for submitted in control.submit(jobs.iter().map(|id| job(id)).collect()).await.unwrap() {
            if !submitted.existing {
                tell("submitted", &submitted.run_id);
            }
        }
        let customer = format!("{name}-{round}");
        let enqueued = operation(&store, "enqueue");
        assert_eq!(control.enqueue(&enqueued, vec![wanted("ads", &customer)]).await.unwrap(), [true]);
        tell("enqueued", &customer);

        let mut claimed = data.claim_runs(claim_runs(name, 4)).await.unwrap();
        assert!(claimed.len() <= 4);
        if orders.hold && round == 0 {
            held = claimed.split_off(claimed.len().min(1));
        }
        for id in complete(&data, claimed).await {
            tell("done", &id);
        }
        let (partitions, _) = data.claim_partitions(claim_partitions(name, 2)).await.unwrap();
        for (nth, claimed) in (0..).zip(partitions) {
            if orders.hold && round == 0 {
                tell("kept", &claimed.run.run_id);
                continue;
            }
            let judgement = if (round + nth) % 2 == 0 {
                Judgement::Accepted { records: 1 }
            } else {
                Judgement::Rejected { class: ErrorClass::Retryable, message: "boom".to_owned(), not_before: None }
            };
            let recorded = store.verdicts().judge(&claimed.run, judgement, None).await.unwrap();
            assert!(matches!(recorded, Recorded::As(_)), "{recorded:?}");
            tell("judged", &claimed.run.run_id);
        }

        let filter = Filter { status: Some(Status::Failed), ..Filter::default() };
        let failed = view.partitions(Page { filter, limit: 3, ..Page::default() }).await.unwrap();
        let retry = ControlEvent::Retry { policy: &policy, clear_terminal: true, stale: false, grant: None };
        let items = failed.into_iter().map(|partition| (partition, retry.clone())).collect();
        for outcome in control.commit(&operation(&store, "state retry"), items).await.unwrap() {
            if let Outcome::Changed { after, .. } = outcome {
                tell("requeued", &after.state.key);
            }
        }
        tell("round", &round);
    }
    for id in complete(&data, held).await {
        tell("done", &id);
    }
}

/// Completes claimed runs; gives the ids of those that were acknowledged, which all must be.
async fn complete(data: &DataStore, claimed: Vec<ClaimedRun>) -> Vec<String> {
    let done = End::Completed { verdict: Verdict::Passed, metrics: None };
    let reports: Vec<_> = claimed.into_iter().map(|claimed| (claimed.run, done.clone())).collect();
    let recorded = data.record(reports).await.unwrap();
    let id = |recorded: Recorded| match recorded {
        Recorded::As(run) => run.run_id.to_string(),
        Recorded::Refused(_) | Recorded::Lost => panic!("a run was taken from its worker: {recorded:?}"),
    };
    recorded.into_iter().map(id).collect()
}

fn orders(place: &Place, rounds: u32, hold: bool) -> Vec<Orders> {
    (0..PROCESSES).map(|nth| Orders { file: place.file(), name: format!("p{nth}"), rounds, hold }).collect()
}

fn told_by_all(orders: &[Orders], word: &str) -> Vec<String> {
    orders.iter().flat_map(|orders| orders.told(word)).collect()
}

fn assert_each_once(ids: &[String]) {
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "something was acknowledged twice");
}

/// Completes whatever is queued; gives how many that were.
async fn drain(store: &Store) -> usize {
    let mut drained = 0;
    loop {
        let claimed = store.data().claim_runs(claim_runs("parent", 100)).await.unwrap();
        if claimed.is_empty() {
            return drained;
        }
        drained += complete(&store.data(), claimed).await.len();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_share_a_file_without_an_error() {
    const ROUNDS: u32 = 8;
    let place = Place::new();
    let orders = orders(&place, ROUNDS, false);
    let children: Vec<Child> = orders.iter().map(Orders::start).collect();
    for child in children {
        child::succeeded(child);
    }

    assert_integrity(&place.file());
    let store = open(&place.url()).await;
    let count = |sql: &str| count_in(&place.file(), sql);
    assert_whole(&store, count).await;
    let (submitted, done) = (told_by_all(&orders, "submitted"), told_by_all(&orders, "done"));
    assert_each_once(&submitted);
    assert_each_once(&done);
    // Two jobs of its own from every process in every round, and one that all of them ask for.
    let rounds = usize::try_from(ROUNDS).unwrap();
    assert_eq!(submitted.len(), PROCESSES * rounds * 2 + rounds);
    assert_eq!(done.len() + drain(&store).await, submitted.len());
    let jobs = u64::try_from(submitted.len()).unwrap();
    assert_eq!(store.view().run_metrics(Workload::Process, 1).await.unwrap().by_state, [(State::Done, jobs)]);
    assert_eq!(count("SELECT count(*) FROM runs WHERE workload = 'process' AND attempt <> 1"), 0);

    let judged = told_by_all(&orders, "judged");
    assert_each_once(&judged);
    let attempts = u64::try_from(judged.len()).unwrap();
    assert_eq!(count("SELECT count(*) FROM runs WHERE workload = 'extract'"), attempts);
    assert_eq!(count("SELECT sum(attempt_count) FROM partitions"), attempts);
    let (enqueued, requeued) = (told_by_all(&orders, "enqueued").len(), told_by_all(&orders, "requeued").len());
    assert_eq!(enqueued, PROCESSES * rounds);
    assert_eq!(count("SELECT count(*) FROM operation_changes"), u64::try_from(enqueued + requeued).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_leaves_the_file_whole_and_its_runs_come_back() {
    let place = Place::new();
    let orders = orders(&place, 10_000, true);
    let mut children: Vec<Child> = orders.iter().map(Orders::start).collect();
    let rounds = |nth: usize| orders[nth].told("round").len();
    eventually("every process has done some rounds", async || (0..PROCESSES).all(|nth| rounds(nth) >= 3)).await;
    for child in &mut children[..2] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before: Vec<usize> = (0..PROCESSES).map(rounds).collect();
    eventually("the others go on", async || (2..PROCESSES).all(|nth| rounds(nth) >= before[nth] + 2)).await;
    fs::write(orders[0].stop(), "").unwrap();
    for child in children.drain(2..) {
        child::succeeded(child);
    }

    assert_integrity(&place.file());
    let clock = ManualClock::at(SystemClock.now().saturating_add(Duration::from_secs(3600)));
    let store = Store::open(&place.url(), Open::Current, with_clock(&clock)).await.unwrap();
    let count = |sql: &str| count_in(&place.file(), sql);
    assert_whole(&store, count).await;
    assert_each_once(&told_by_all(&orders, "done"));
    assert_each_once(&told_by_all(&orders, "judged"));
    let ids = |word: &str| told_by_all(&orders, word).iter().map(|id| id.parse().unwrap()).collect::<Vec<_>>();
    for id in ids("done").into_iter().chain(ids("judged")) {
        let run = store.view().run(id).await.unwrap().expect("an acknowledged run is there");
        assert!(matches!(run.state, State::Done | State::Dead), "{run:?}");
    }
    for id in ids("submitted") {
        assert!(store.view().run(id).await.unwrap().is_some(), "{id} was acknowledged and is gone");
    }

    let of_killed = "SELECT count(*) FROM runs WHERE state = 'running' AND worker IN ('p0', 'p1')";
    assert!(count(of_killed) >= 1, "the killed held runs");
    let running = count("SELECT count(*) FROM runs WHERE state = 'running'");
    let mut expired = Vec::new();
    for &workload in Workload::ALL {
        expired.extend(store.data().expire(workload, 10_000, |_| RetryPolicy::process()).await.unwrap());
    }
    assert_eq!(u64::try_from(expired.len()).unwrap(), running);
    assert_eq!(count("SELECT count(*) FROM runs WHERE state = 'running'"), 0);
    assert_eq!(count("SELECT count(*) FROM partition_control WHERE active_run_id IS NOT NULL"), 0);
    clock.advance(Duration::from_secs(3600));
    drain(&store).await;
    assert_eq!(count("SELECT count(*) FROM runs WHERE workload = 'process' AND state <> 'done'"), 0);
    assert_eq!(count("SELECT count(*) FROM runs WHERE workload = 'process' AND attempt > 2"), 0);
    assert_whole(&store, count).await;
}
