//! Workers are killed at random moments while they handle jobs with programs. In the end every job has one verdict or is
//! stopped for a reason, every attempt ended once, and no job was ever handled twice at once.

use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::chaos::{Random, full_seed};
use crate::home::TestProgram;
use crate::rig::{Process, TestProcesses};

struct Campaign {
    seed: u64,
    workers: usize,
    jobs: u32,
    kills: u32,
}

const MAX_ATTEMPTS: u32 = 12;

const SETTINGS: &str = r#"
[worker]
concurrency = 8
lease = "3s"
heartbeat = "500ms"
poll = "200ms"
[process.jobs]
categories = ["a", "b"]
command = ["sh", "./handle"]
max_in_flight = 24
[process.jobs.discover]
command = ["cat", "jobs"]
interval = "1h"
[process.jobs.retry]
base = "200ms"
cap = "1s"
max_attempts = 12
"#;

/// Holds a lock as long as it or anything that it started lives; whoever finds the lock taken writes it down. One job in ten
/// is never to be done, and one in ten only at its second attempt.
const HANDLE: &str = r#"
read -r job
exec 9>"locks/$REDRIVE_RUN_ID"
flock -n 9 || echo "$REDRIVE_RUN_ID" >> twice
sleep 0.05
case "$job" in
    *'"payload":3}') exit 65 ;;
    *'"payload":4}') test "$REDRIVE_ATTEMPT" -gt 1 || exit 75 ;;
esac
echo '{"verdict":"passed"}'
"#;

const UNSETTLED: &str = "SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting')";

impl Campaign {
    fn run(&self, subject: TestProgram) {
        println!("seed {}", self.seed);
        let rig = TestProcesses::new(subject, SETTINGS);
        rig.subject.home.write("handle", HANDLE);
        std::fs::create_dir(rig.subject.home.file("locks")).unwrap();
        rig.subject.home.write("jobs", &self.listing());
        let mut workers: Vec<Process> = (0..self.workers).map(|_| rig.spawn("worker")).collect();
        let all = i64::from(self.jobs);
        until_within(Duration::from_secs(60), "all jobs were found", || rig.number("SELECT count(*) FROM runs") == all);
        self.kill_some(&rig, &mut workers);
        until_within(Duration::from_secs(600), "all is settled", || rig.number(UNSETTLED) == 0);
        for process in &mut workers {
            process.signal("-TERM");
            assert_eq!(process.code(), Some(0), "{}", rig.log(process));
        }
        self.check(&rig);
    }

    fn listing(&self) -> String {
        let job = |nth: u32| {
            let (category, payload) = (if nth.is_multiple_of(2) { "a" } else { "b" }, nth % 10);
            format!(r#"{{"external_id":"{nth}","category":"{category}","payload":{payload}}}"#)
        };
        (0..self.jobs).map(job).collect::<Vec<_>>().join("\n")
    }

    /// Kills a random worker after a random number of further attempts, and starts another in its place.
    fn kill_some(&self, rig: &TestProcesses, workers: &mut [Process]) {
        let mut random = Random(self.seed);
        for nth in 0..self.kills {
            let attempts = || rig.number("SELECT CAST(sum(attempt) AS BIGINT) FROM runs");
            let goal = attempts() + i64::try_from(random.below(20)).unwrap();
            until_within(Duration::from_secs(120), "there are more attempts, or nothing is left to do", || {
                attempts() >= goal || rig.number(UNSETTLED) == 0
            });
            let victim = usize::try_from(random.below(u64::try_from(workers.len()).unwrap())).unwrap();
            workers[victim].kill();
            workers[victim] = rig.spawn("worker");
            if nth % 10 == 9 {
                println!("{} killed", nth + 1);
            }
        }
    }

    fn check(&self, rig: &TestProcesses) {
        let count = |condition: &str| rig.number(&format!("SELECT count(*) FROM runs WHERE {condition}"));
        let abandoned = rig.number("SELECT count(*) FROM run_failures WHERE error_message = 'lease expired'");
        println!("{} jobs, {} passed, {abandoned} abandoned", self.jobs, count("verdict = 'passed'"));
        assert!(abandoned > 0, "the kills have hit something");
        assert_eq!(count("1 = 1"), i64::from(self.jobs), "nothing was submitted twice");
        assert_eq!(count("state = 'done' AND verdict = 'passed' AND error_class IS NULL"), count("state = 'done'"));
        let reason = "error_class IS NOT NULL AND error_message IS NOT NULL AND next_retry_at IS NULL";
        assert_eq!(count(&format!("state = 'dead' AND verdict IS NULL AND {reason}")), count("state = 'dead'"));
        assert_eq!(count("state = 'dead' AND error_class = 'final'"), i64::from(self.jobs / 10));
        assert_eq!(count(&format!("retry_count >= {MAX_ATTEMPTS}")), 0, "no more retries than the policy allows");
        let failures = "(SELECT count(*) FROM run_failures f WHERE f.run_id = runs.run_id)";
        let ended = format!("{failures} + CASE WHEN verdict IS NULL THEN 0 ELSE 1 END");
        assert_eq!(count(&format!("attempt <> {ended}")), 0, "every attempt ended once");
        assert!(!rig.subject.home.file("twice").exists(), "a job was handled twice at once");
        let told = rig.redrive("doctor -o json");
        assert_eq!(told.code, 0, "{told}\n{}", rig.logs());
    }
}

const SMALL: Campaign = Campaign { seed: 20_261, workers: 3, jobs: 200, kills: 6 };

/// The whole of it; `./chaos` runs it.
fn full() -> Campaign {
    Campaign { seed: full_seed(), workers: 4, jobs: 2000, kills: 100 }
}

#[test]
fn killed_workers_lose_no_job_on_sqlite() {
    SMALL.run(TestDatabase::sqlite().into());
}

#[test]
fn killed_workers_lose_no_job_on_postgres() {
    SMALL.run(TestDatabase::postgres().into());
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn a_hundred_kills_lose_no_job_on_sqlite() {
    full().run(TestDatabase::sqlite().into());
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn a_hundred_kills_lose_no_job_on_postgres() {
    full().run(TestDatabase::postgres().into());
}
