//! A folder with a configuration and a database, and the workers and daemons that are started on it.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::{TestProgram, Told};

pub struct TestProcesses {
    pub subject: TestProgram,
    started: AtomicU32,
}

impl TestProcesses {
    /// The settings need no `store.url`.
    pub fn new(subject: TestProgram, settings: &str) -> Self {
        subject.home.write("redrive.toml", settings);
        subject.home.run(&["migrate"]).done();
        Self { subject, started: AtomicU32::new(0) }
    }

    pub fn redrive(&self, arguments: &str) -> Told {
        self.subject.home.run(&arguments.split(' ').collect::<Vec<_>>())
    }

    /// Wants days of a query from 2026-01-01 on.
    pub fn want(&self, source: &str, customer: &str, query: &str, until: &str) {
        let filter = format!("--source {source} --customer-id {customer} --query-name {query}");
        self.redrive(&format!("state backfill enqueue {filter} --since 2026-01-01 --until {until} --force -q")).done();
    }

    /// A process of the program whose log is kept in the folder.
    pub fn spawn(&self, arguments: &str) -> Process {
        self.spawn_as(arguments, |_| {})
    }

    /// The same, once the caller has prepared it.
    pub fn spawn_as(&self, arguments: &str, prepare: impl FnOnce(&mut Command)) -> Process {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("{number}-{}.log", arguments.split(' ').next().unwrap_or_default());
        let log = File::create(self.subject.home.file(&name)).unwrap();
        let mut command = self.subject.home.command(&arguments.split(' ').collect::<Vec<_>>());
        prepare(&mut command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Process { child, log: name }
    }

    /// The number that a query gives.
    pub fn number(&self, sql: &str) -> i64 {
        self.subject.database.number(sql)
    }

    pub fn log(&self, process: &Process) -> String {
        self.subject.home.read(&process.log)
    }

    /// Shows what all processes said, for a test that fails.
    pub fn logs(&self) -> String {
        let mut names = self.subject.home.files();
        names.retain(|name| name.ends_with(".log"));
        names.iter().map(|name| format!("=== {name}\n{}\n", self.subject.home.read(name))).collect()
    }
}

/// A child that does not outlive its test.
pub struct Process {
    pub child: Child,
    log: String,
}

impl Process {
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name, as `-TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The code it ends with, after a bounded wait.
    pub fn code(&mut self) -> Option<i32> {
        let mut ended = None;
        until_within(Duration::from_secs(60), "the process has ended", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
