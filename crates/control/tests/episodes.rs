//! Episodes of failure groups, look by look, on both databases: what people are told of many failures alike.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::time::Duration;

use redrive_control::{ControlPlane, Sink, SourceRules, Sources};
use redrive_core::breaker::BreakerPolicy;
use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::notice::{Notice, NoticeKind};
use redrive_core::partition::{ControlEvent, Judgement, Status};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Fault, Verdict};
use redrive_fixture::{OnDatabase, TestDatabase, TestStore, rejected};
use redrive_store::raw::S3Options;
use redrive_store::{JudgedAttempt, Page};

/// A control plane over a store whose clock the test holds, and another beside it.
struct Followed {
    on: TestStore,
    plane: ControlPlane,
    other: ControlPlane,
}

impl OnDatabase for Followed {
    async fn on(database: TestDatabase) -> Self {
        let raw = format!("file:{}", database.path().join("raw").display());
        let on = TestStore::on(database).await;
        let plane = |store: &redrive_store::Store| {
            let raw = Sink::new(raw.parse().unwrap(), S3Options::default());
            let two = RetryPolicy { max_attempts: Some(2), ..RetryPolicy::partitions() };
            let rules = SourceRules { retry: two, ..SourceRules::default() };
            let sources = Sources::new([("crm".parse().unwrap(), rules)].into());
            ControlPlane::new(store.control(), raw, sources, "2015-01-01".parse().unwrap())
        };
        let other = plane(&on.again().await);
        Self { plane: plane(&on.store), other, on }
    }
}

impl Followed {
    /// Two daemons look at the same time; what they tell of together.
    async fn look(&self) -> Vec<NoticeKind> {
        self.on.clock.advance(Duration::from_secs(60));
        let before = self.told().await.len();
        let (one, two) = tokio::join!(self.plane.follow_episodes(), self.other.follow_episodes());
        let told = self.told().await;
        assert_eq!(usize::try_from(one.unwrap() + two.unwrap()).unwrap(), told.len() - before);
        told[before..].iter().map(|notice| notice.event).collect()
    }

    async fn told(&self) -> Vec<Notice> {
        let newest = self.on.store.view().notifications(1000).await.unwrap();
        newest.into_iter().rev().map(|one| one.notice).collect()
    }

    /// Fails these partitions with messages that differ in what is folded.
    async fn fail(&self, keys: &[PartitionKey]) {
        self.on.want(Lane::Fresh, keys.to_vec()).await;
        self.judge(unavailable).await;
    }

    async fn judge(&self, judgement: impl Fn(&PartitionKey) -> Judgement) {
        loop {
            let claimed = self.on.claim(10_000).await;
            if claimed.is_empty() {
                return;
            }
            let judged = claimed.into_iter().map(|claimed| JudgedAttempt {
                judgement: judgement(&claimed.partition.state.key),
                claimed,
                metrics: "{}".to_owned(),
                trace: None,
                breaker: BreakerPolicy::OFF,
            });
            self.on.store.verdicts().judge_many(&judged.collect::<Vec<_>>()).await.unwrap();
        }
    }

    /// Retries all that is failed.
    async fn retry(&self) {
        let policy = RetryPolicy::partitions();
        let filter = Filter { status: Some(Status::Failed), ..Filter::default() };
        let page = Page { filter, limit: 10_000, ..Page::default() };
        let failed = self.on.store.view().partitions(page).await.unwrap();
        let event = ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant: None };
        let retry = |partition| (partition, event.clone());
        self.on.put_all(failed.into_iter().map(retry).collect()).await;
    }
}

fn unavailable(key: &PartitionKey) -> Judgement {
    rejected(ErrorClass::Retryable, &format!("HTTP 503 for {}", key.logical_date))
}

fn days(source: &str, customers: std::ops::Range<usize>, count: usize) -> Vec<PartitionKey> {
    let date = |n: usize| format!("{}-{:02}-{:02}", 2020 + n / 336, n / 28 % 12 + 1, n % 28 + 1);
    let key = |customer: usize, n| PartitionKey::new(source, &format!("c{customer}"), "daily", &date(n)).unwrap();
    customers.flat_map(|customer| (0..count).map(move |n| key(customer, n))).collect()
}

/// SV-7: however many fail alike, people hear three times of it; and one of two daemons tells them.
async fn ten_thousand_failures_alike_are_three_messages(subject: Followed) {
    subject.fail(&days("ads", 0..1, 1000)).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupOpened]);
    assert_eq!(subject.look().await, []);
    subject.fail(&days("ads", 1..10, 1000)).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupGrown]);
    assert_eq!(subject.look().await, []);
    let told = subject.told().await;
    assert_eq!((told[0].count, told[1].count, told[1].since), (1000, 10_000, told[0].since));
    assert_eq!(told[0].sources, ["ads".to_owned()].into());

    // Being tried again is not the end, and to fail again is no new beginning.
    subject.retry().await;
    assert_eq!(subject.look().await, []);
    subject.judge(unavailable).await;
    assert_eq!(subject.look().await, []);
    subject.retry().await;
    subject.judge(|_| Judgement::Accepted { records: 1 }).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupResolved]);
    assert_eq!(subject.look().await, []);
    let resolved = subject.told().await.remove(2);
    assert_eq!((resolved.count, &resolved.sources), (0, &["ads".to_owned()].into()));

    subject.on.want(Lane::Fresh, days("ads", 20..21, 1)).await;
    subject.judge(unavailable).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupOpened], "another episode");
}

/// SV-7: that attempts are used up is told once in an episode.
async fn exhaustion_is_told_once(subject: Followed) {
    let keys = days("crm", 0..1, 3);
    subject.fail(&keys).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupOpened]);
    for _ in 0..2 {
        subject.retry().await;
        subject.judge(unavailable).await;
        subject.look().await;
    }
    let told: Vec<NoticeKind> = subject.told().await.iter().map(|notice| notice.event).collect();
    assert_eq!(told, [NoticeKind::GroupOpened, NoticeKind::GroupExhausted]);
}

/// A job that waits, is queued and fails again is one episode; its end is told when it is done.
async fn jobs_have_episodes_too(subject: Followed) {
    subject.on.submit(&["any%"]).await;
    let fault = Fault {
        class: ErrorClass::Retryable,
        message: "the verifier is away".to_owned(),
        trace: None,
        retry_after: None,
    };
    let failed = || End::Failed { fault: fault.clone(), metrics: None, policy: RetryPolicy::process() };
    for attempt in 0..3 {
        let job = subject.on.claim_jobs(1).await.remove(0);
        assert_eq!(subject.look().await, [], "it is being tried again");
        subject.on.report(&job, failed()).await;
        let expected: &[NoticeKind] = if attempt == 0 { &[NoticeKind::GroupOpened] } else { &[] };
        assert_eq!(subject.look().await, expected);
        subject.on.clock.advance(Duration::from_secs(3600));
    }
    assert_eq!(subject.told().await[0].categories, ["any%".to_owned()].into());
    let job = subject.on.claim_jobs(1).await.remove(0);
    subject.on.report(&job, End::Completed { verdict: Verdict::Passed, metrics: None }).await;
    assert_eq!(subject.look().await, [NoticeKind::GroupResolved]);
}

redrive_fixture::on_both_databases!(
    ten_thousand_failures_alike_are_three_messages,
    exhaustion_is_told_once,
    jobs_have_episodes_too,
);
