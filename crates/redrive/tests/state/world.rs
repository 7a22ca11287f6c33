//! A database with partitions in it, made through the store as workers would, and the program in a folder beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement, Partition};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_fixture::{Database, Postgres};
use redrive_store::clock::{Clock, ManualClock, SystemClock};
use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use redrive_store::{Open, Operation, Options, PartitionClaim, Recorded, Rotation, Store, StoreUrl};
use serde_json::Value;

use crate::home::{Home, Told};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub home: Home,
    pub url: StoreUrl,
    pub database: Option<Database>,
    pub runtime: tokio::runtime::Runtime,
}

/// The store as it was some time ago.
pub struct Past<'a> {
    world: &'a World,
    pub store: Store,
    pub clock: ManualClock,
}

pub fn key(customer: &str, query: &str, date: &str) -> PartitionKey {
    PartitionKey::new("ads", customer, query, date).unwrap()
}

/// The first days of January 2026.
pub fn january(customer: &str, days: usize) -> Vec<PartitionKey> {
    (1..=days).map(|day| key(customer, "daily", &format!("2026-01-{day:02}"))).collect()
}

pub fn rejected(class: ErrorClass, message: &str) -> Judgement {
    Judgement::Rejected { class, message: message.to_owned(), not_before: None }
}

pub fn boom() -> Judgement {
    rejected(ErrorClass::Retryable, "boom")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl World {
    pub fn sqlite() -> Self {
        let home = Home::new();
        let url = StoreUrl::Sqlite(home.file("redrive.db"));
        Self { home, url, database: None, runtime: runtime() }.migrated()
    }

    pub fn postgres() -> Self {
        Self::on(Postgres::shared().fresh_database())
    }

    pub fn on(database: Database) -> Self {
        let home = Home::new().env("REDRIVE_STORE__URL", &database.url);
        let url = StoreUrl::parse(&database.url).unwrap();
        Self { home, url, database: Some(database), runtime: runtime() }.migrated()
    }

    fn migrated(self) -> Self {
        self.home.run(&["migrate"]).done();
        self
    }

    pub fn configured(self, text: &str) -> Self {
        self.home.write("redrive.toml", text);
        self
    }

    /// Runs the program with these words.
    pub fn run(&self, line: &str) -> Told {
        self.home.run(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs it for JSON, and asserts what it ends with.
    pub fn json(&self, line: &str, code: i32) -> Value {
        let told = self.run(&format!("{line} -o json"));
        assert_eq!(told.code, code, "{line}\n{told}");
        told.json()
    }

    /// Begins the program, with its output kept for when it ends.
    pub fn spawn(&self, line: &str) -> Child {
        let mut command = self.home.command(&line.split_whitespace().collect::<Vec<_>>());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub fn ago(&self, ago: Duration) -> Past<'_> {
        let clock = ManualClock::at(SystemClock.now().saturating_sub(ago));
        let options = Options {
            clock: Arc::new(clock.clone()),
            follow_server_clock: false,
            connections: 8,
            ..Options::default()
        };
        let store = self.runtime.block_on(Store::open(&self.url, Open::Current, options)).unwrap();
        Past { world: self, store, clock }
    }

    pub fn read(&self, key: &PartitionKey) -> Partition {
        let past = self.ago(Duration::ZERO);
        self.runtime.block_on(past.store.view().partition(key)).unwrap().unwrap()
    }

    pub fn status(&self, key: &PartitionKey) -> &'static str {
        self.read(key).state.status.as_str()
    }

    /// Runs SQL on the database itself.
    pub fn execute(&self, sql: &str) {
        match &self.database {
            Some(database) => drop(database.query(sql)),
            None => self.home.sqlite("redrive.db", sql),
        }
    }

    /// One number out of the database.
    pub fn number(&self, sql: &str) -> i64 {
        match &self.database {
            Some(database) => database.query(sql).trim().parse().unwrap(),
            None => {
                let file = rusqlite::Connection::open(self.home.file("redrive.db")).unwrap();
                file.busy_timeout(PATIENCE).unwrap();
                file.query_row(sql, [], |row| row.get(0)).unwrap()
            }
        }
    }

    pub fn operations(&self) -> i64 {
        self.number("SELECT count(*) FROM operations")
    }

    /// Failed partitions by the thousand: `count` of them over queries of a thousand days each.
    pub fn failures(&self, count: u32, at: Timestamp) {
        let at = at.micros();
        let (numbers, query) = match self.database {
            None => (
                format!("WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {count})"),
                "printf('query_%02d', n / 1000)",
            ),
            Some(_) => (
                format!("WITH s AS (SELECT generate_series(0, {count} - 1) AS n)"),
                "'query_' || lpad((n / 1000)::text, 2, '0')",
            ),
        };
        self.execute(&format!(
            "{numbers} INSERT INTO series SELECT 1 + n / 1000, 'ads', '111', {query}, 1, 4294967297 \
             FROM s WHERE n % 1000 = 0"
        ));
        // From 2022-01-01 on.
        self.execute(&format!(
            "{numbers} INSERT INTO partitions (series_id, period, source_no, status, attempt_count, \
             error_class, error_message, created_at, updated_at) \
             SELECT 1 + n / 1000, 18993 + n % 1000, 1, 'failed', 1, 'retryable', 'boom', {at}, {at} FROM s"
        ));
    }

    pub fn whole(&self) {
        let told = self.json("state audit verify", 0);
        assert_eq!(told["whole"], true);
    }

    fn sink(&self) -> PathBuf {
        self.home.file("raw")
    }
}

impl Past<'_> {
    fn operation(&self) -> Operation {
        Operation {
            op_id: self.store.control().new_operation_id(),
            at: self.clock.now(),
            actor: "tester@here".to_owned(),
            command: "test".to_owned(),
            filters: "{}".to_owned(),
            flags: "{}".to_owned(),
            reason: None,
        }
    }

    pub fn want(&self, keys: &[PartitionKey]) {
        let now = self.clock.now();
        let wanted = keys.iter().map(|key| Partition::new(key.clone(), Lane::Fresh, now)).collect();
        self.world.runtime.block_on(self.store.control().enqueue(None, wanted)).unwrap();
    }

    pub fn put(&self, keys: &[PartitionKey], event: ControlEvent<'_>) {
        self.world.runtime.block_on(async {
            let found = self.store.view().partitions_of(keys.to_vec()).await.unwrap();
            let items = found.into_iter().map(|partition| (partition.unwrap(), event.clone())).collect();
            for outcome in self.store.control().commit(&self.operation(), items).await.unwrap() {
                assert!(matches!(outcome, redrive_store::Outcome::Changed { .. }), "{outcome:?}");
            }
        });
    }

    /// Claims all that is wanted.
    pub fn claim(&self) -> Vec<Run> {
        let claim = PartitionClaim {
            limit: 1000,
            worker: "w1".to_owned(),
            lease: 2 * MINUTE,
            sources: None,
            max_in_flight: BTreeMap::new(),
            at_most: BTreeMap::new(),
            rotation: Rotation::default(),
        };
        let (claimed, _) = self.world.runtime.block_on(self.store.data().claim_partitions(claim)).unwrap();
        claimed.into_iter().map(|claimed| claimed.run).collect()
    }

    pub fn judge(&self, run: &Run, judgement: Judgement) {
        let metrics = Some("{\"records\":7}".to_owned());
        let recorded = self.world.runtime.block_on(self.store.data().judge(run, judgement, metrics)).unwrap();
        assert!(matches!(recorded, Recorded::As(_)), "{recorded:?}");
    }

    /// Wants, claims and judges these; nothing else may be wanted. Each leaves a directory in the raw sink.
    pub fn judged(&self, keys: &[PartitionKey], judgement: Judgement) {
        for run in self.judged_without_raw(keys, judgement) {
            self.leave_raw(&run);
        }
    }

    pub fn judged_without_raw(&self, keys: &[PartitionKey], judgement: Judgement) -> Vec<Run> {
        self.want(keys);
        let runs = self.claim();
        assert_eq!(runs.len(), keys.len());
        runs.iter().for_each(|run| self.judge(run, judgement.clone()));
        runs
    }

    /// Fails them `times` times.
    pub fn failed(&self, keys: &[PartitionKey], times: u32) {
        self.judged(keys, boom());
        let policy = RetryPolicy { max_attempts: None, max_age: None, ..RetryPolicy::partitions() };
        for _ in 1..times {
            self.put(keys, ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false });
            self.claim().iter().for_each(|run| self.judge(run, boom()));
        }
    }

    fn leave_raw(&self, run: &Run) {
        let url: RawUrl = format!("file:{}", self.world.sink().display()).parse().unwrap();
        self.world.runtime.block_on(async {
            let sink = RawSink::open(&url, &RawOptions::default()).await.unwrap();
            let key = run.key().unwrap().clone();
            let attempt = RunHeader {
                key,
                run_id: run.run_id,
                fence: run.task_id.unwrap(),
                extractor: "test".to_owned(),
                started_at: self.clock.now(),
            };
            let outcome = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "boom".to_owned() };
            sink.begin(attempt).finish(outcome, self.clock.now()).await.unwrap();
        });
    }
}

/// Waits for a condition, and gives up loudly.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// What a child said, once it has ended.
pub fn ended(child: Child) -> Told {
    Told::of(child.wait_with_output().unwrap())
}

pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// The reasons of what a report skipped.
pub fn reasons(report: &Value) -> Vec<&str> {
    report["skipped"].as_array().unwrap().iter().map(|skipped| skipped["reason"].as_str().unwrap()).collect()
}

pub fn count(report: &Value, list: &str) -> usize {
    report[list].as_array().unwrap().len()
}

/// Writes one test for each database.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite { $(#[test] fn $name() { super::$name($crate::world::World::sqlite()); })+ }
        mod postgres { $(#[test] fn $name() { super::$name($crate::world::World::postgres()); })+ }
    };
}
