//! A worker is killed while it starts programs, at random moments of the first milliseconds; sometimes the process that
//! watches over its programs is killed just before. No program is left.

use std::path::Path;
use std::time::{Duration, Instant};

use redrive_fixture::{TestDatabase, until_within};

use crate::home::TestProgram;
use crate::random::Random;
use crate::rig::TestProcesses;
use crate::system::{kill, pids_with_argument, watcher_of};

pub struct Aimed {
    pub seed: u64,
    pub kills: u32,
    pub customers: u32,
}

/// Programs that one worker starts in a burst, one after another.
const PROGRAMS: u64 = 16;
/// How long such a burst takes at the most.
const BURST: Duration = Duration::from_millis(60);
/// How long programs may take to be gone after their worker was killed.
const PATIENCE: Duration = Duration::from_secs(15);

/// Quiet programs that heed no polite signal. The number of seconds marks them as this test's.
fn settings(mark: &str) -> String {
    format!(
        r#"
[worker]
concurrency = {PROGRAMS}
lease = "3s"
heartbeat = "500ms"
[sources.quiet.extract]
kind = "command"
command = ["/bin/sh", "-c", "trap '' TERM HUP INT; echo up >> up; exec sleep {mark}"]
"#
    )
}

impl Aimed {
    /// Gives the number of programs that outlived their workers.
    pub fn run(&self, subject: TestProgram) -> usize {
        // Both databases may have their turn in one process.
        let seconds = if subject.kind == "sqlite" { 3600 } else { 3602 };
        let mark = format!("{seconds}.{}", std::process::id());
        let rig = TestProcesses::new(subject, &settings(&mark));
        for customer in 0..self.customers {
            rig.want("quiet", &format!("c{customer}"), "q", "2026-10-31");
        }
        let _programs = Programs(&mark);
        let (mut random, mut started, mut left) = (Random(self.seed), 0, 0);
        for nth in 0..self.kills {
            left += self.kill_one(&rig, &mut random, &mark, nth % 3 == 2);
            started += lines(&rig.subject.home.file("up"));
            if nth % 50 == 49 {
                println!("{} killed", nth + 1);
            }
        }
        println!("{} workers killed among {started} programs that had begun: {left} left", self.kills);
        assert!(started > u64::from(self.kills), "the kills hit bursts of programs");
        left
    }

    /// Kills a worker soon after its first program is up; gives the number of programs that are still there long after.
    fn kill_one(&self, rig: &TestProcesses, random: &mut Random, mark: &str, watcher_too: bool) -> usize {
        let up = rig.subject.home.file("up");
        let _ = std::fs::remove_file(&up);
        let mut worker = rig.spawn("worker");
        wait_for(&up, &rig.log(&worker));
        let watcher = watcher_of(&worker).filter(|_| watcher_too);
        let moment = Instant::now() + BURST * u32::try_from(random.below(1000)).unwrap() / 1000;
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        if let Some(watcher) = watcher {
            kill(&watcher);
        }
        worker.kill();
        let (begun, mut left) = (Instant::now(), usize::MAX);
        // Twice in a row: one that is being started has no name yet.
        let mut quiet = 0;
        while quiet < 2 && begun.elapsed() < PATIENCE {
            left = pids_with_argument(mark).len();
            quiet = if left == 0 { quiet + 1 } else { 0 };
            std::thread::park_timeout(Duration::from_millis(20));
        }
        for pid in pids_with_argument(mark) {
            kill(&pid);
        }
        left
    }
}

fn lines(file: &Path) -> u64 {
    u64::try_from(std::fs::read_to_string(file).unwrap_or_default().lines().count()).unwrap()
}

/// Looks without a pause, so that the kill can be aimed.
fn wait_for(file: &Path, log: &str) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no program was started\n{log}");
        std::thread::park_timeout(Duration::from_micros(100));
    }
}

/// Programs with this mark, which do not outlive the test.
struct Programs<'a>(&'a str);

impl Drop for Programs<'_> {
    fn drop(&mut self) {
        pids_with_argument(self.0).iter().for_each(|pid| kill(pid));
    }
}

#[test]
fn kills_aimed_at_the_start_of_programs_leave_none() {
    assert_eq!(Aimed { seed: 20_263, kills: 12, customers: 1 }.run(TestDatabase::sqlite().into()), 0);
}

/// Both watchers must see it: the one beside the worker is gone when the worker is killed.
#[test]
fn programs_end_with_their_worker_although_their_watcher_was_killed_first() {
    let mark = format!("3601.{}", std::process::id());
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), &settings(&mark));
    rig.want("quiet", "c", "q", "2026-01-03");
    let _programs = Programs(&mark);
    let mut worker = rig.spawn("worker -vv");
    until_within(Duration::from_secs(30), "its programs are up", || pids_with_argument(&mark).len() == 3);
    // Stopped, it can neither notice nor replace it.
    worker.signal("-STOP");
    kill(&watcher_of(&worker).unwrap());
    worker.kill();
    until_within(PATIENCE, "none of its programs is left", || pids_with_argument(&mark).is_empty());
}
