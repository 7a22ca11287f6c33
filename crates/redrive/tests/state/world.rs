//! A database with partitions in it, made through the store as workers would, and the program in a folder beside it.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement, Partition};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_fixture::{TestDatabase, TestStore, boom};
use redrive_store::clock::{Clock as _, ManualClock, SystemClock};
use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use redrive_store::{Outcome, Recorded};
use serde_json::Value;

use crate::home::{TestProgram, Told};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);
/// The program in a folder of its own, with a database that has its tables.
pub struct MigratedProgram {
    pub program: TestProgram,
    pub runtime: tokio::runtime::Runtime,
}

/// The store as it was some time ago.
pub struct Past<'a> {
    world: &'a MigratedProgram,
    on: TestStore,
}

pub fn key(customer: &str, query: &str, date: &str) -> PartitionKey {
    PartitionKey::new("ads", customer, query, date).unwrap()
}

/// The first days of January 2026.
pub fn january(customer: &str, days: usize) -> Vec<PartitionKey> {
    (1..=days).map(|day| key(customer, "daily", &format!("2026-01-{day:02}"))).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Deref for MigratedProgram {
    type Target = TestProgram;

    fn deref(&self) -> &TestProgram {
        &self.program
    }
}

impl From<TestDatabase> for MigratedProgram {
    fn from(database: TestDatabase) -> Self {
        let program = TestProgram::from(database);
        program.home.run(&["migrate"]).done();
        Self { program, runtime: runtime() }
    }
}

impl MigratedProgram {
    pub fn sqlite() -> Self {
        TestDatabase::sqlite().into()
    }

    pub fn postgres() -> Self {
        TestDatabase::postgres().into()
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
        let on = self.runtime.block_on(TestStore::open(self.database.clone(), clock));
        Past { world: self, on }
    }

    pub fn ahead(&self, span: Duration) -> Past<'_> {
        let clock = ManualClock::at(SystemClock.now().saturating_add(span));
        let on = self.runtime.block_on(TestStore::open(self.database.clone(), clock));
        Past { world: self, on }
    }

    pub fn read(&self, key: &PartitionKey) -> Partition {
        self.runtime.block_on(self.ago(Duration::ZERO).on.read(key))
    }

    pub fn status(&self, key: &PartitionKey) -> &'static str {
        self.read(key).state.status.as_str()
    }

    /// One number out of the database.
    pub fn number(&self, sql: &str) -> i64 {
        self.database.number(sql)
    }

    /// How many operations there were since partitions were wanted.
    pub fn operations(&self) -> i64 {
        self.number("SELECT count(*) FROM operations WHERE command <> 'want'")
    }

    /// Failed partitions by the thousand: `count` of them over queries of a thousand days each.
    pub fn failures(&self, count: u32, at: Timestamp) {
        let at = at.micros();
        let (numbers, query) = match self.database.server {
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
            "{numbers} INSERT INTO partitions (series_id, period, source_no, status, attempt_count, spent, \
             error_class, error_message, created_at, updated_at) \
             SELECT 1 + n / 1000, 18993 + n % 1000, 1, 'failed', 1, 1, 'retryable', 'boom', {at}, {at} FROM s"
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

impl Deref for Past<'_> {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.on
    }
}

impl Past<'_> {
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.world.runtime.block_on(future)
    }

    pub fn want(&self, keys: &[PartitionKey]) {
        self.world.runtime.block_on(self.on.want(Lane::Fresh, keys.to_vec()));
    }

    pub fn put(&self, keys: &[PartitionKey], event: ControlEvent<'_>) {
        self.world.runtime.block_on(async {
            let found = self.store.view().partitions_of(keys.to_vec()).await.unwrap();
            let items = found.into_iter().map(|partition| (partition.unwrap(), event.clone())).collect();
            for outcome in self.put_all(items).await {
                assert!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
            }
        });
    }

    /// Claims all that is wanted.
    pub fn claim(&self) -> Vec<Run> {
        let claimed = self.world.runtime.block_on(self.on.claim(1000));
        claimed.into_iter().map(|claimed| claimed.run).collect()
    }

    pub fn judge(&self, run: &Run, judgement: Judgement) {
        let metrics = Some("{\"records\":7}".to_owned());
        let recorded = self.world.runtime.block_on(self.store.verdicts().judge(run, judgement, metrics)).unwrap();
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
            self.put(keys, ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant: None });
            self.claim().iter().for_each(|run| self.judge(run, boom()));
        }
    }

    fn leave_raw(&self, run: &Run) {
        let url: RawUrl = format!("file:{}", self.world.sink().display()).parse().unwrap();
        let outcome = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "boom".to_owned() };
        self.write_raw(&url, &RawOptions::default(), run, &[], outcome);
    }

    /// Writes what a run brought into a sink, as a worker does.
    pub fn write_raw(&self, url: &RawUrl, options: &RawOptions, run: &Run, lines: &[String], outcome: RunOutcome) {
        self.world.runtime.block_on(async {
            let sink = RawSink::open(url, options).await.unwrap();
            let mut writer = sink.begin(RunHeader {
                key: run.key().unwrap().clone(),
                run_id: run.run_id,
                fence: run.task_id.unwrap(),
                extractor: "test".to_owned(),
                started_at: self.now(),
            });
            for line in lines {
                writer.write_line(line.as_bytes()).await.unwrap();
            }
            writer.finish(outcome, self.now()).await.unwrap();
        });
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
