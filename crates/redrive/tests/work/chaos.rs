//! Workers are killed at random moments while others go on. In the end every partition is a success or stopped for
//! good, every verdict counts once, and `doctor` finds nothing.

use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::home::TestProgram;
use crate::rig::{Process, TestProcesses};

struct Campaign {
    seed: u64,
    workers: usize,
    daemons: usize,
    customers: u32,
    /// The last day, counted from 2026-01-01, of four queries a customer.
    until: &'static str,
    partitions: i64,
    kills: u32,
}

const SETTINGS: &str = r#"
[worker]
concurrency = 8
lease = "3s"
heartbeat = "500ms"
poll = "200ms"
[sources.flaky]
max_in_flight = 24
[sources.flaky.extract]
kind = "sample"
seed = 7
records = 300
latency = "40ms"
failure = 0.10
truncation = 0.05
rate_limit = 0.01
retry_after = "1s"
gone = 0.01
[sources.flaky.validate]
min_records = 200
unique = ["id"]
[sources.flaky.retry]
base = "300ms"
cap = "2s"
jitter = "100ms"
max_attempts = 12
"#;

impl Campaign {
    fn run(&self, subject: TestProgram) {
        println!("seed {}", self.seed);
        let rig = TestProcesses::new(subject, SETTINGS);
        for customer in 0..self.customers {
            for query in ["a", "b", "c", "d"] {
                rig.want("flaky", &format!("customer-{customer}"), query, self.until);
            }
        }
        assert_eq!(rig.number("SELECT count(*) FROM partitions"), self.partitions);
        let daemons: Vec<Process> = (0..self.daemons).map(|_| rig.spawn("daemon --interval 300ms")).collect();
        let mut workers: Vec<Process> = (0..self.workers).map(|_| rig.spawn("worker")).collect();
        self.kill_some(&rig, &mut workers);
        until_within(Duration::from_secs(600), "all is settled", || settled(&rig));
        for process in workers.iter_mut().chain(&mut { daemons }) {
            process.signal("-TERM");
            assert_eq!(process.code(), Some(0), "{}", rig.log(process));
        }
        self.check(&rig);
    }

    /// Kills a random worker after a random number of further attempts, and starts another in its place.
    fn kill_some(&self, rig: &TestProcesses, workers: &mut [Process]) {
        let mut random = Random(self.seed);
        for nth in 0..self.kills {
            let begun = rig.number("SELECT count(*) FROM runs");
            let more = i64::try_from(random.below(20)).unwrap();
            until_within(Duration::from_secs(120), "there are more attempts, or nothing is left to do", || {
                rig.number("SELECT count(*) FROM runs") >= begun + more
                    || (rig.number("SELECT count(*) FROM partition_control WHERE lane IS NOT NULL") == 0)
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
        let unsettled = "SELECT count(*) FROM partitions WHERE status NOT IN ('success', 'failed')";
        assert_eq!(rig.number(unsettled), 0, "every partition is a success or has failed");
        let verdicts = rig.number("SELECT count(*) FROM runs WHERE verdict IS NOT NULL");
        assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), verdicts, "attempt_count = verdicts");
        let twice = "SELECT count(*) FROM (SELECT run_id FROM run_failures GROUP BY run_id HAVING count(*) > 1) t";
        assert_eq!(rig.number(twice), 0, "no run has failed twice");
        assert_eq!(rig.number("SELECT count(*) FROM runs WHERE state = 'running'"), 0, "nothing is left running");
        let abandoned = rig.number("SELECT count(*) FROM run_failures WHERE error_message = 'lease expired'");
        assert!(abandoned > 0, "the kills have hit something");
        let successes = rig.number("SELECT count(*) FROM partitions WHERE status = 'success'");
        println!("{} partitions, {successes} successes, {verdicts} verdicts, {abandoned} abandoned", self.partitions);
        assert!(successes * 10 > self.partitions * 9, "{successes} of {} are successes", self.partitions);
        let told = rig.redrive("doctor -o json");
        assert_eq!(told.code, 0, "{told}\n{}", rig.logs());
    }
}

/// Whether nothing more will happen by itself. Each partition is looked at once, and one that is settled stays so.
fn settled(rig: &TestProcesses) -> bool {
    let seen = rig.redrive("state inspect --limit 0 -o json").done().json();
    seen["partitions"].as_array().unwrap().iter().all(|partition| {
        partition["status"] != "pending" && partition["next_retry_at"].is_null() && partition["active_run_id"].is_null()
    })
}

/// The seed that `./chaos` was given.
pub fn full_seed() -> u64 {
    std::env::var_os("REDRIVE_CHAOS_SEED").and_then(|seed| seed.to_str()?.parse().ok()).unwrap_or(1)
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

const SMALL: Campaign =
    Campaign { seed: 20_261, workers: 3, daemons: 2, customers: 2, until: "2026-01-20", partitions: 160, kills: 6 };

/// The whole of it; `./chaos` runs it.
fn full() -> Campaign {
    let seed = full_seed();
    Campaign { seed, workers: 4, daemons: 2, customers: 5, until: "2026-04-10", partitions: 2000, kills: 100 }
}

#[test]
fn killed_workers_lose_nothing_on_sqlite() {
    SMALL.run(TestDatabase::sqlite().into());
}

#[test]
fn killed_workers_lose_nothing_on_postgres() {
    SMALL.run(TestDatabase::postgres().into());
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn a_hundred_kills_lose_nothing_on_sqlite() {
    full().run(TestDatabase::sqlite().into());
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn a_hundred_kills_lose_nothing_on_postgres() {
    full().run(TestDatabase::postgres().into());
}
