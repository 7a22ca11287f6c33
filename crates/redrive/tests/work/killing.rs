//! A worker that is killed takes the programs it had started with it, however quiet and stubborn they are.

use std::path::PathBuf;
use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::rig::{Process, TestProcesses};
use crate::system::{Seen, kill, watcher_of};

/// Neither the program nor the process that it starts heeds a polite signal, and neither writes anything.
const SETTINGS: &str = r#"
[worker]
grace = "100ms"
[sources.quiet.extract]
kind = "command"
command = ["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 600 & echo $$ $! >> pids; wait"]
"#;

/// The processes of the programs, which do not outlive the test.
struct Programs(PathBuf);

impl Programs {
    fn pids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for pid in self.pids().iter().filter(|pid| Seen::of(pid).is_some()) {
            kill(pid);
        }
    }
}

/// A worker with three programs, all at work.
fn at_work() -> (TestProcesses, Process, Programs) {
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), SETTINGS);
    rig.want("quiet", "c", "q", "2026-01-03");
    let programs = Programs(rig.subject.home.file("pids"));
    let worker = rig.spawn("worker -vv");
    until_within(Duration::from_secs(20), "its programs are at work", || {
        // The worker's word as well: a program may be up before whoever started it goes on.
        programs.pids().len() == 6 && rig.log(&worker).matches("started a program").count() == 3
    });
    (rig, worker, programs)
}

#[test]
fn a_killed_worker_takes_its_programs_with_it() {
    let (_rig, mut worker, programs) = at_work();
    let watcher = watcher_of(&worker).unwrap();
    assert!(programs.pids().iter().all(|pid| Seen::of(pid).is_some()));
    worker.kill();
    until_within(Duration::from_secs(20), "none of its programs is left", || {
        programs.pids().iter().all(|pid| Seen::of(pid).is_none())
    });
    until_within(Duration::from_secs(20), "nobody watches any more", || Seen::of(&watcher).is_none());
}

/// Whoever reads the log must find the program that did it.
#[test]
fn what_a_program_leaves_behind_is_told_with_its_key() {
    let settings = r#"
[sources.untidy.extract]
kind = "command"
command = ["/bin/sh", "-c", "sleep 600 & echo '{}'"]
"#;
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), settings);
    rig.want("untidy", "c", "q", "2026-01-01");
    let told = rig.redrive("worker --drain").done();
    let line =
        told.stderr.lines().find(|line| line.contains("a process that a program left behind")).unwrap_or_default();
    assert!(line.contains("untidy/c/q/2026-01-01") && line.contains("run_id="), "{told}");
}

#[test]
fn the_watcher_is_not_hit_by_what_hits_the_worker() {
    let (_rig, worker, _programs) = at_work();
    let watcher = watcher_of(&worker).unwrap();
    assert_eq!(Seen::of(&watcher).unwrap().group, watcher, "it is in a group of its own");
    let place = std::fs::read_link(format!("/proc/{watcher}/cwd")).unwrap();
    assert_eq!(place, PathBuf::from("/"), "it holds no directory");
}

#[test]
fn a_worker_that_ends_in_order_leaves_no_watcher() {
    let (rig, mut worker, programs) = at_work();
    let watcher = watcher_of(&worker).unwrap();
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert!(Seen::of(&watcher).is_none(), "it is gone before the worker is");
    assert!(programs.pids().iter().all(|pid| Seen::of(pid).is_none()));
}
