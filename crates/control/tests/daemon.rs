//! The daemon's tick against a clock that the test holds.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use redrive_control::{ControlPlane, Sink, Sources};
use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{ControlEvent, Judgement, Partition, Status};
use redrive_core::retry::{Grant, RetryPolicy};
use redrive_fixture::{OnDatabase, START, TestDatabase, TestStore, boom};
use redrive_store::raw::S3Options;
use redrive_store::{Cooldown, Outcome, Page};

const MINUTE: Duration = Duration::from_secs(60);

/// A control plane over a store whose clock the test holds.
struct TestControlPlane {
    on: TestStore,
    plane: ControlPlane,
}

impl Deref for TestControlPlane {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.on
    }
}

impl OnDatabase for TestControlPlane {
    async fn on(database: TestDatabase) -> Self {
        let raw = format!("file:{}", database.path().join("raw").display()).parse().unwrap();
        let raw = Sink::new(raw, S3Options::default());
        let on = TestStore::on(database).await;
        let earliest = "2015-01-01".parse().unwrap();
        let plane = ControlPlane::new(on.store.control(), raw, Sources::default(), earliest);
        Self { on, plane }
    }
}

impl TestControlPlane {
    /// Claims all that is wanted, and judges it.
    async fn judge_all(&self, judgement: &Judgement) -> usize {
        self.judge_each(|_| judgement.clone()).await
    }

    async fn failed(&self, keys: &[PartitionKey], judgement: &Judgement) {
        self.judged(keys.to_vec(), judgement.clone()).await;
    }

    /// Successes that were to be reprocessed, and whose first attempt at it came out so.
    async fn reprocessed(&self, keys: &[PartitionKey], judgement: &Judgement) {
        self.failed(keys, &Judgement::Accepted { records: 7 }).await;
        let read = self.all().await.into_iter().filter(|partition| keys.contains(&partition.state.key));
        let outcomes = self.put_all(read.map(|partition| (partition, ControlEvent::Reprocess)).collect()).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Changed { .. })), "{outcomes:?}");
        assert_eq!(self.judge_all(judgement).await, keys.len());
    }

    async fn put(&self, key: &PartitionKey, event: ControlEvent<'_>) {
        let outcome = self.ask(key, event).await;
        assert!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    }

    async fn all(&self) -> Vec<Partition> {
        self.store.view().partitions(Page { limit: 10_000, ..Page::default() }).await.unwrap()
    }

    /// What `explain` says the next tick takes.
    async fn foreseen(&self) -> BTreeSet<PartitionKey> {
        let holds = self.plane.insight().holds().await.unwrap();
        let due =
            |partition: &Partition| matches!(self.plane.insight().outlook(partition, &holds), Outlook::Due { .. });
        self.all().await.into_iter().filter(due).map(|partition| partition.state.key).collect()
    }
}

fn keys(customer: &str, count: usize) -> Vec<PartitionKey> {
    let date = |n: usize| format!("{}-{:02}-{:02}", 2020 + n / 336, n / 28 % 12 + 1, n % 28 + 1);
    (0..count).map(|n| PartitionKey::new("ads", customer, "daily", &date(n)).unwrap()).collect()
}

/// RD-3, RD-6: failures whose backoff cannot have passed are not read.
async fn a_tick_with_nothing_due_reads_no_failure(subject: TestControlPlane) {
    subject.failed(&keys("111", 1200), &boom()).await;
    subject.clock.advance(4 * MINUTE);
    assert_eq!(subject.plane.tick("tester").await.unwrap(), redrive_control::daemon::Tick::default());
    subject.clock.advance(2 * MINUTE);
    let tick = subject.plane.tick("tester").await.unwrap();
    assert_eq!((tick.considered, tick.requeued, tick.overtaken), (1200, 1200, 0), "over several pages");
    assert_eq!(subject.plane.tick("tester").await.unwrap().considered, 0);
}

/// RD-2, RD-3, RD-4, RP-4.1: minute by minute, a tick takes exactly what `explain` calls due.
async fn a_tick_takes_what_is_foreseen(subject: TestControlPlane) {
    subject.failed(&keys("plain", 20), &boom()).await;
    let rate_limited = Judgement::Rejected {
        class: ErrorClass::RateLimited,
        message: "429".to_owned(),
        not_before: Some(START.saturating_add(8 * MINUTE)),
    };
    subject.failed(&keys("hinted", 3), &rate_limited).await;
    let last = Judgement::Rejected { class: ErrorClass::Final, message: "no".to_owned(), not_before: None };
    subject.failed(&keys("final", 3), &last).await;
    subject.failed(&keys("held", 2), &boom()).await;
    let held = keys("held", 2);
    subject.put(&held[0], ControlEvent::Pause { by: "ada", why: None }).await;
    subject.put(&held[1], ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 }).await;
    subject.failed(&keys("cooling", 3), &boom()).await;
    subject.reprocessed(&keys("again", 4), &boom()).await;
    subject.reprocessed(&keys("again, hinted", 2), &rate_limited).await;
    subject.reprocessed(&keys("again, final", 2), &last).await;
    subject.reprocessed(&keys("again, held", 1), &boom()).await;
    subject.put(&keys("again, held", 1)[0], ControlEvent::Pause { by: "ada", why: None }).await;
    let (source, customer_id) = ("ads".parse().unwrap(), Some("cooling".parse().unwrap()));
    let until = START.saturating_add(15 * MINUTE);
    subject.store.data().cool_down(Cooldown { source, customer_id, until, why: None }).await.unwrap();
    let mut taken = BTreeMap::<PartitionKey, u32>::new();
    let step = Duration::from_secs(15);
    let mut fails = 0;
    // Long enough for three attempts of every plain one: 5, 10 and 20 minutes of backoff.
    for _ in 0..(40 * 4) {
        let foreseen = subject.foreseen().await;
        let before: BTreeMap<_, _> =
            subject.all().await.into_iter().map(|partition| (partition.state.key.clone(), partition)).collect();
        let would: BTreeSet<_> =
            subject.plane.insight().foresee_tick().await.unwrap().would.into_iter().map(|action| action.key).collect();
        assert_eq!(would, foreseen, "a dry run says the same");
        let tick = subject.plane.tick("tester").await.unwrap();
        assert_eq!(tick.requeued, u64::try_from(foreseen.len()).unwrap());
        for partition in subject.all().await {
            let key = &partition.state.key;
            let changed = before[key] != partition;
            assert_eq!(changed, foreseen.contains(key), "{key}");
            if changed {
                *taken.entry(key.clone()).or_default() += 1;
            }
        }
        fails += subject.judge_all(&boom()).await;
        subject.clock.advance(step);
    }
    assert_eq!(fails, usize::try_from(taken.values().sum::<u32>()).unwrap());
    let of =
        |customer: &str| -> Vec<u32> { keys(customer, 20).iter().filter_map(|key| taken.get(key)).copied().collect() };
    assert_eq!(of("plain"), [3; 20], "5, 15 and 35 minutes after the start");
    assert_eq!((of("final"), of("held")), (vec![], vec![]));
    assert_eq!((of("hinted").len(), of("cooling").len()), (3, 3));
    assert_eq!(of("again"), [3; 4], "a reprocess is tried again as often, whatever went before it");
    assert_eq!((of("again, hinted").len(), of("again, final"), of("again, held")), (2, vec![], vec![]));
    let policy = RetryPolicy::partitions();
    assert!(subject.all().await.iter().all(|partition| partition.state.attempt_count < policy.max_attempts.unwrap()));
}

/// OP-9: the daemon takes what persons granted beyond the policy, and no more; beside it lie failures that have nothing left.
async fn a_grant_is_used_up_by_the_daemon(subject: TestControlPlane) {
    let (spent, given) = (keys("spent", 3), keys("given", 2));
    let limit = RetryPolicy::partitions().attempt_limit().unwrap();
    subject.failed(&[spent.clone(), given.clone()].concat(), &boom()).await;
    let tick = async || {
        subject.clock.advance(7 * 60 * MINUTE);
        let tick = subject.plane.tick("tester").await.unwrap();
        subject.judge_all(&boom()).await;
        (tick.considered, tick.requeued)
    };
    for _ in 1..limit {
        assert_eq!(tick().await, (5, 5));
    }
    assert_eq!(tick().await, (0, 0), "all have used up their attempts, and none is read");
    let (policy, grant) = (RetryPolicy::partitions(), Some(Grant::Attempts(3.try_into().unwrap())));
    for key in &given {
        let event = ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant };
        subject.put(key, event).await;
    }
    assert_eq!(subject.judge_all(&boom()).await, 2, "the first of three");
    assert_eq!((tick().await, tick().await, tick().await), ((2, 2), (2, 2), (0, 0)));
    for partition in subject.all().await {
        let expected = if spent.contains(&partition.state.key) { limit } else { limit + 3 };
        assert_eq!(partition.state.attempt_count, expected, "{}", partition.state.key);
    }
}

/// OP-9: the same for a request to reprocess.
async fn a_reprocess_is_granted_further_attempts(subject: TestControlPlane) {
    let key = keys("again", 1).remove(0);
    subject.reprocessed(std::slice::from_ref(&key), &boom()).await;
    let limit = RetryPolicy::partitions().attempt_limit().unwrap();
    let tick = async || {
        subject.clock.advance(7 * 60 * MINUTE);
        let tick = subject.plane.tick("tester").await.unwrap();
        subject.judge_all(&boom()).await;
        tick.requeued
    };
    for _ in 1..limit {
        assert_eq!(tick().await, 1);
    }
    assert_eq!(tick().await, 0);
    let (policy, grant) = (RetryPolicy::partitions(), Some(Grant::Attempts(2.try_into().unwrap())));
    subject.put(&key, ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant }).await;
    assert_eq!(subject.judge_all(&boom()).await, 1);
    assert_eq!((tick().await, tick().await), (1, 0));
}

/// RP-2.6, RP-5.1: a request to reprocess stands until it is served or has used up its attempts; the success stays throughout.
async fn a_reprocess_is_tried_until_it_runs_out(subject: TestControlPlane) {
    let (hopeless, mended) = (keys("hopeless", 1100), keys("mended", 1));
    subject.reprocessed(&hopeless, &boom()).await;
    subject.reprocessed(&mended, &boom()).await;
    let limit = RetryPolicy::partitions().attempt_limit().unwrap();
    for attempt in 2..=limit {
        subject.clock.advance(7 * 60 * MINUTE);
        let tick = subject.plane.tick("tester").await.unwrap();
        let open = if attempt == 2 { 1101 } else { 1100 };
        assert_eq!((tick.considered, tick.requeued), (open, open), "attempt {attempt}, over several pages");
        assert!(subject.all().await.iter().all(|partition| partition.state.status == Status::Success));
        subject.judge_each(|key| if mended.contains(key) { Judgement::Accepted { records: 8 } } else { boom() }).await;
    }
    subject.clock.advance(7 * 60 * MINUTE);
    assert_eq!(subject.plane.tick("tester").await.unwrap(), redrive_control::daemon::Tick::default());
    for partition in subject.all().await {
        let (records, attempts) = if hopeless.contains(&partition.state.key) { (7, limit + 1) } else { (8, 3) };
        assert_eq!((partition.state.record_count, partition.state.attempt_count), (Some(records), attempts));
        assert_eq!(subject.plane.insight().outlook(&partition, &[]), Outlook::Done);
    }
    let told = subject.plane.insight().explain(&hopeless[0]).await.unwrap().because;
    assert!(told.contains("8 attempts to reprocess it were rejected, and the policy allows no more"), "{told}");
    subject.put(&hopeless[0], ControlEvent::Reprocess).await;
    assert_eq!(subject.judge_all(&boom()).await, 1, "a person can ask anew");
    subject.clock.advance(7 * MINUTE);
    assert_eq!(subject.plane.tick("tester").await.unwrap().requeued, 1);
}

/// What the process shows of a daemon: when it last passed, and how long what it requeued had to wait. A look counts for nothing.
async fn a_pass_is_shown(subject: TestControlPlane) {
    let shown = |series: &str| {
        let mut page = redrive_metrics::Page::default();
        subject.store.metrics().write(&mut page);
        let text = page.into_text();
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).map(str::to_owned)
    };
    let (passed, delays) =
        ("redrive_daemon_last_pass_timestamp_seconds", "redrive_retry_delay_seconds_count{workload=\"extract\"}");
    subject.failed(&keys("111", 3), &boom()).await;
    subject.clock.advance(6 * MINUTE);
    subject.plane.insight().foresee_tick().await.unwrap();
    assert_eq!((shown(passed), shown(delays)), (None, None));
    subject.plane.tick("tester").await.unwrap();
    let seconds = (START.micros() / 1_000_000 + 360).to_string();
    assert_eq!((shown(passed), shown(delays)), (Some(seconds), Some("3".to_owned())));
    subject.plane.tick("tester").await.unwrap();
    assert_eq!(shown(delays), Some("3".to_owned()), "nothing more was requeued");
}

redrive_fixture::on_both_databases!(
    a_pass_is_shown,
    a_grant_is_used_up_by_the_daemon,
    a_reprocess_is_granted_further_attempts,
    a_tick_with_nothing_due_reads_no_failure,
    a_tick_takes_what_is_foreseen,
    a_reprocess_is_tried_until_it_runs_out,
);
