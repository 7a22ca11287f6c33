//! Workers and daemons on one database and one sink, kept busy with all three workloads.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use redrive_fixture::{Durability, ForgedClock, Postgres, TestDatabase};

use crate::check::{self, Reader, Subject};
use crate::random::Random;
use crate::rig::{Process, TestProcesses};
use crate::table::Finding;
use crate::workloads::{EXTRACT, Expected, HANDLE, JOBS_WORKER, Range, SETTINGS, WORKER, Workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Processes end before the database and its server do.
pub struct World {
    pub kind: Kind,
    /// The first of them does jobs alone.
    pub workers: Vec<Process>,
    pub daemons: Vec<Process>,
    pub reader: Reader,
    pub rig: TestProcesses,
    pub server: Option<Postgres>,
    pub expected: Expected,
    /// A text among the arguments of every program.
    pub mark: String,
    /// The wall clock of processes, while a fault sets it.
    pub clock: Option<ForgedClock>,
    /// How many seconds ahead of the true one it is.
    pub clock_at: i64,
    pub is_time_steady: bool,
    /// How long a command takes, about.
    pub command_time: Duration,
    files: u32,
    /// Whether jobs were in bundles.
    pub has_bundled: bool,
    seen: BTreeSet<Finding>,
}

const DAEMON: &str = "daemon --interval 300ms";
/// How long all work may take to come to its end.
const SETTLING: Duration = Duration::from_secs(180);

/// What will still happen by itself: what is wanted, running, waiting, or failed and to be tried again.
const UNSETTLED: &str = "
    SELECT (SELECT count(*) FROM partitions WHERE status = 'pending')
        + (SELECT count(*) FROM partitions
            WHERE status = 'failed' AND error_class <> 'final' AND attempt_count < 12)
        + (SELECT count(*) FROM partition_control WHERE lane IS NOT NULL OR active_run_id IS NOT NULL)
        + (SELECT count(*) FROM run_claims)
        + (SELECT count(*) FROM run_bundles)
        + (SELECT count(*) FROM run_queue)
        + (SELECT count(*) FROM run_waiting WHERE state = 'waiting')";
const ENDED: &str = "SELECT (SELECT count(*) FROM run_ends) + (SELECT count(*) FROM run_failures)";

impl World {
    pub fn new(kind: Kind, workers: usize) -> Self {
        let server = (kind == Kind::Postgres).then(|| Postgres::start(Durability::Full));
        let database = match &server {
            Some(server) => TestDatabase::of(server.fresh_database()),
            None => TestDatabase::sqlite(),
        };
        let mark = format!("campaign-{}-{}", kind.word(), std::process::id());
        let reader = Reader::new(&database);
        let rig = TestProcesses::new(database.into(), &SETTINGS.replace("MARK", &mark));
        let home = &rig.subject.home;
        home.write("extract", EXTRACT);
        home.write("handle", HANDLE);
        fs::create_dir(home.file("locks")).unwrap();
        let mut world = Self {
            kind,
            workers: Vec::new(),
            daemons: Vec::new(),
            reader,
            rig,
            server,
            expected: Expected::default(),
            mark,
            clock: None,
            clock_at: 0,
            is_time_steady: true,
            command_time: Duration::from_millis(100),
            files: 0,
            has_bundled: false,
            seen: BTreeSet::new(),
        };
        world.keep_busy();
        world.start(workers, 2);
        world
    }

    pub fn start(&mut self, workers: usize, daemons: usize) {
        for place in 0..workers {
            let worker = self.worker(place);
            self.workers.push(worker);
        }
        for _ in 0..daemons {
            let daemon = self.daemon();
            self.daemons.push(daemon);
        }
    }

    /// A worker for this place among them.
    pub fn worker(&self, place: usize) -> Process {
        self.spawn(if place == 0 { JOBS_WORKER } else { WORKER })
    }

    pub fn daemon(&self) -> Process {
        self.spawn(DAEMON)
    }

    pub fn spawn(&self, arguments: &str) -> Process {
        self.rig.spawn_as(arguments, |command| {
            if let Some(clock) = &self.clock {
                clock.show_to(command);
            }
        })
    }

    /// Runs a command to its end, which must be one of these.
    pub fn command(&self, arguments: &str, codes: &[i32]) {
        let mut process = self.spawn(arguments);
        let code = process.code();
        assert!(code.is_some_and(|code| codes.contains(&code)), "{arguments}: {code:?}\n{}", self.rig.log(&process));
    }

    /// Asks for more of each workload that is about to run dry.
    pub fn keep_busy(&mut self) {
        let claimable = "SELECT count(*) FROM partition_control WHERE lane IS NOT NULL AND active_run_id IS NULL";
        while self.reader.number(claimable) < 12 {
            let range = self.expected.range();
            self.command(&enqueue(&range), &[0]);
        }
        let queued = |workload: &str| format!("SELECT count(*) FROM run_queue WHERE workload = '{workload}'");
        if self.reader.number(&queued("process")) < 30 {
            let file = self.jobs_file();
            self.command(&submit(&file), &[0]);
        }
        if self.reader.number(&queued("ingest")) < 2 {
            let files = [self.archive_file(), self.archive_file(), self.archive_file(), self.archive_file()];
            self.command(&upload(&files.join(" ")), &[0]);
        }
    }

    pub fn jobs_file(&mut self) -> String {
        let (name, lines) = (self.file_name("jobs"), self.expected.jobs());
        self.rig.subject.home.write(&name, &lines);
        name
    }

    pub fn archive_file(&mut self) -> String {
        let (name, bytes) = (self.file_name("archive"), self.expected.archive());
        fs::write(self.rig.subject.home.file(&name), bytes).unwrap();
        name
    }

    fn file_name(&mut self, what: &str) -> String {
        self.files += 1;
        format!("{what}-{}", self.files)
    }

    /// The workloads of which something runs now.
    pub fn at_work(&mut self) -> Vec<Workload> {
        let running = self
            .reader
            .rows("SELECT DISTINCT workload FROM run_claims UNION SELECT DISTINCT 'process' FROM run_bundles");
        let words: Vec<&str> = running.iter().filter_map(|row| row[0].as_deref()).collect();
        Workload::ALL.into_iter().filter(|workload| words.contains(&workload.word())).collect()
    }

    /// Waits until a few more attempts have ended, and then for a moment that is anywhere within the next.
    pub fn until_a_random_moment(&mut self, random: &mut Random) {
        let more = i64::try_from(random.below(6)).unwrap();
        self.until_ended(more);
        let moment = Instant::now() + Duration::from_micros(random.below(30_000));
        while let Some(left) = moment.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
    }

    /// Waits until so many more attempts have ended; there is enough to do for that.
    pub fn until_ended(&mut self, more: i64) {
        let goal = self.reader.number(ENDED) + more;
        self.keep_busy();
        let begun = Instant::now();
        while self.reader.number(ENDED) < goal {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing goes on\n{}", self.last_words());
            self.has_bundled |= self.reader.number("SELECT count(*) FROM run_bundles") > 0;
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Processes that have ended although nobody asked them to; others take their places.
    pub fn replace_the_dead(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for place in 0..self.workers.len() {
            if let Some(status) = self.workers[place].child.try_wait().unwrap() {
                let log = self.rig.log(&self.workers[place]);
                findings.push(Finding::general(format!("a worker has ended by itself, {status}: {}", tail(&log))));
                self.workers[place] = self.worker(place);
            }
        }
        for place in 0..self.daemons.len() {
            if let Some(status) = self.daemons[place].child.try_wait().unwrap() {
                let log = self.rig.log(&self.daemons[place]);
                findings.push(Finding::general(format!("a daemon has ended by itself, {status}: {}", tail(&log))));
                self.daemons[place] = self.daemon();
            }
        }
        findings
    }

    /// Stops all processes in order.
    pub fn stop(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut processes: Vec<Process> = self.workers.drain(..).chain(self.daemons.drain(..)).collect();
        for process in &processes {
            process.signal("-TERM");
        }
        for process in &mut processes {
            let code = process.code();
            if code != Some(0) {
                findings.push(Finding::general(format!("told to stop, it ended with {code:?}")));
            }
        }
        findings
    }

    /// Lets all work come to its end, and has the checker look at everything. What was found before is not told again.
    pub fn settle_and_check(&mut self) -> Vec<Finding> {
        let begun = Instant::now();
        let mut findings = self.replace_the_dead();
        while self.reader.number(UNSETTLED) > 0 {
            if begun.elapsed() > SETTLING {
                let left = self.reader.number(UNSETTLED);
                findings.push(Finding::general(format!("{left} pieces of work are left\n{}", self.last_words())));
                break;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        findings.extend(self.replace_the_dead());
        findings.extend(self.check());
        findings.retain(|finding| self.seen.insert(finding.clone()));
        findings
    }

    pub fn check(&mut self) -> Vec<Finding> {
        check::all(&mut Subject {
            reader: &mut self.reader,
            folder: self.rig.subject.home.path(),
            expected: &self.expected,
            is_time_steady: self.is_time_steady,
            // On PostgreSQL each process has its own reading of the server's clock: exact to 20 ms at its start, where one of three
            // answers came quickly, and to 1 ms less for each second since the last. What an attempt waited for is no part of
            // it: a claim tells its time after all waits, an end before its commit.
            clock_error: if self.kind == Kind::Postgres { 200_000 } else { 0 },
        })
    }

    /// The ends of the logs of what runs now.
    fn last_words(&self) -> String {
        self.workers.iter().chain(&self.daemons).map(|process| tail(&self.rig.log(process))).collect()
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n") + "\n"
}

pub fn enqueue(range: &Range) -> String {
    format!("state backfill enqueue {} --force -q", range.filter())
}

pub fn submit(file: &str) -> String {
    format!("runs submit --jsonl {file} -q")
}

pub fn upload(files: &str) -> String {
    format!("ingest upload {files} -q")
}
