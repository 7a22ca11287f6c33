//! With real process groups. The death of this process is played by closing the pipe, which is all that the watcher
//! sees of it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A process in a group of its own that does not outlive its test.
struct Program(Child);

impl Program {
    fn start() -> Self {
        Self::start_in(0)
    }

    fn start_in(group: i32) -> Self {
        Self(Command::new("sleep").arg("600").process_group(group).spawn().unwrap())
    }

    fn group(&self) -> Pid {
        id(&self.0)
    }

    /// Whether it has died; it is not reaped, so its group is still there.
    fn is_dead(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.group()), options).unwrap().is_some()
    }

    /// The signal that it has died of, or dies of now: an earlier one that kills is never overtaken.
    fn last_signal(&mut self) -> Option<i32> {
        if self.0.try_wait().unwrap().is_none() {
            kill_process(self.group(), Signal::TERM).unwrap();
        }
        exit(&mut self.0).signal()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const KILLED: Option<i32> = Some(Signal::KILL.as_raw());
const UNHARMED: Option<i32> = Some(Signal::TERM.as_raw());

fn id(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn until<T>(what: &str, mut holds: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = holds() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} until {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn exit(child: &mut Child) -> ExitStatus {
    until("a process has ended", || child.try_wait().unwrap())
}

fn watcher(reaper: &ChildReaper) -> Pid {
    id(&reaper.lock().watcher.as_ref().unwrap().0)
}

/// Once it has read all that it was told, it also heeds what comes before that in its script.
fn wait_until_it_has_read(reaper: &ChildReaper) {
    until("the watcher has read everything", || {
        let mut groups = reaper.lock();
        let unread = rustix::io::ioctl_fionread(groups.watcher.as_mut().unwrap().pipe().unwrap()).unwrap();
        (unread == 0).then_some(())
    });
}

/// Lets the pipe go as the system does for a process that is gone, and waits until the watcher has done its work. Reaps the
/// programs meanwhile, as the system does for orphans.
fn die(reaper: &ChildReaper, programs: &mut [&mut Program]) {
    let mut groups = reaper.lock();
    let watcher = groups.watcher.as_mut().unwrap();
    drop(watcher.0.stdin.take());
    let ended = until("the watcher has ended", || {
        for program in programs.iter_mut() {
            program.0.try_wait().unwrap();
        }
        watcher.0.try_wait().unwrap()
    });
    assert!(ended.code().is_some(), "it ends by itself");
}

#[test]
fn what_is_held_is_killed_and_what_was_let_go_is_not() {
    let reaper = ChildReaper::default();
    reaper.lock().start();
    // Started after the watcher: if they inherited its pipe, it would never close.
    let [mut first, mut gone, mut last] = [(); 3].map(|()| Program::start());
    let holds = [&first, &gone, &last].map(|program| reaper.hold(program.group()));
    let [_first, let_go, _last] = holds;
    drop(let_go);
    die(&reaper, &mut [&mut first, &mut gone, &mut last]);
    assert_eq!(first.last_signal(), KILLED);
    assert_eq!(gone.last_signal(), UNHARMED);
    assert_eq!(last.last_signal(), KILLED);
}

#[test]
fn after_many_programs_only_those_that_run_are_on_the_list() {
    let reaper = ChildReaper::default();
    let [mut runs, mut ended] = [(); 2].map(|()| Program::start());
    for _ in 0..5000 {
        drop((reaper.hold(ended.group()), reaper.hold(ended.group())));
    }
    let _hold = reaper.hold(runs.group());
    assert_eq!(reaper.lock().places.len(), 2, "places are used again");
    die(&reaper, &mut [&mut runs, &mut ended]);
    assert_eq!(runs.last_signal(), KILLED);
    assert_eq!(ended.last_signal(), UNHARMED);
}

#[test]
fn the_last_who_lets_go_ends_the_watcher() {
    let reaper = ChildReaper::default();
    let mut program = Program::start();
    let hold = reaper.hold(program.group());
    let watcher = watcher(&reaper);
    drop(reaper);
    kill_process(watcher, Signal::URG).expect("it is there while something is held");
    drop(hold);
    kill_process(watcher, Signal::URG).expect_err("it is gone, and has been reaped");
    assert_eq!(program.last_signal(), UNHARMED);
}

#[test]
fn signals_that_ask_to_end_do_not_end_it() {
    let reaper = ChildReaper::default();
    let mut program = Program::start();
    let _hold = reaper.hold(program.group());
    wait_until_it_has_read(&reaper);
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        kill_process(watcher(&reaper), signal).unwrap();
    }
    die(&reaper, &mut [&mut program]);
    assert_eq!(program.last_signal(), KILLED);
}

#[test]
fn a_watcher_that_is_gone_is_replaced_and_the_next_knows_everything() {
    let reaper = ChildReaper::default();
    let [mut before, mut ended, mut after] = [(); 3].map(|()| Program::start());
    let [_before, let_go] = [&before, &ended].map(|program| reaper.hold(program.group()));
    drop(let_go);
    let first = watcher(&reaper);
    kill_process(first, Signal::KILL).unwrap();
    let _after = reaper.hold(after.group());
    until("another is there", || (watcher(&reaper) != first).then_some(()));
    die(&reaper, &mut [&mut before, &mut ended, &mut after]);
    assert_eq!(before.last_signal(), KILLED);
    assert_eq!(ended.last_signal(), UNHARMED);
    assert_eq!(after.last_signal(), KILLED);
}

#[test]
fn a_watcher_that_does_not_read_holds_nobody_up_and_is_replaced() {
    let reaper = ChildReaper::default();
    let [mut runs, mut ended] = [(); 2].map(|()| Program::start());
    let _hold = reaper.hold(runs.group());
    let first = watcher(&reaper);
    kill_process(first, Signal::STOP).unwrap();
    let (done, is_done) = mpsc::channel();
    let (busy, group) = (reaper.clone(), ended.group());
    thread::spawn(move || {
        // More than a pipe takes.
        for _ in 0..20_000 {
            drop(busy.hold(group));
        }
        done.send(()).unwrap();
    });
    let in_time = is_done.recv_timeout(LIMIT).is_ok();
    if !in_time {
        // Frees the thread that is held up after all, lock in hand.
        kill_process(first, Signal::KILL).unwrap();
    }
    assert!(in_time, "it is not held up");
    assert_ne!(watcher(&reaper), first);
    die(&reaper, &mut [&mut runs, &mut ended]);
    assert_eq!(runs.last_signal(), KILLED);
    assert_eq!(ended.last_signal(), UNHARMED);
}

#[test]
fn without_a_watcher_the_work_goes_on_and_a_later_one_knows_everything() {
    let reaper = ChildReaper::default();
    reaper.lock().shell = "/does/not/exist";
    let [mut first, mut second] = [(); 2].map(|()| Program::start());
    let _first = reaper.hold(first.group());
    drop(reaper.hold(second.group()));
    let groups = reaper.lock();
    assert!(groups.watcher.is_none() && groups.has_warned);
    drop(groups);
    reaper.lock().shell = SHELL;
    let _second = reaper.hold(second.group());
    die(&reaper, &mut [&mut first, &mut second]);
    assert_eq!(first.last_signal(), KILLED);
    assert_eq!(second.last_signal(), KILLED);
}

#[test]
fn a_watcher_that_is_killed_is_replaced_before_the_next_program() {
    let reaper = ChildReaper::default();
    let mut program = Program::start();
    let _hold = reaper.hold(program.group());
    let first = watcher(&reaper);
    kill_process(first, Signal::KILL).unwrap();
    until("another is there", || (watcher(&reaper) != first).then_some(()));
    die(&reaper, &mut [&mut program]);
    assert_eq!(program.last_signal(), KILLED);
}

/// The system was starting it when the worker was killed: it joins a group that has been killed once already.
#[test]
fn a_program_that_joins_its_group_late_is_killed_too() {
    let reaper = ChildReaper::default();
    let mut first = Program::start();
    let _hold = reaper.hold(first.group());
    drop(reaper.lock().watcher.as_mut().unwrap().0.stdin.take());
    until("the group was killed", || first.is_dead().then_some(()));
    let mut late = Program::start_in(first.group().as_raw_nonzero().get());
    assert_eq!(exit(&mut late.0).signal(), KILLED);
    die(&reaper, &mut [&mut first]);
}
