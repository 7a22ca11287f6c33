//! What the system says of processes, and signals by pid.

use std::process::{Command, Stdio};

use crate::rig::Process;

pub fn kill(pid: &str) {
    let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
}

/// What the system says of a process that is there. One that has only to be reaped is not.
pub struct Seen {
    pub parent: String,
    pub group: String,
}

impl Seen {
    pub fn of(pid: &str) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it is in brackets, and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned);
        let (state, parent, group) = (fields.next()?, fields.next()?, fields.next()?);
        (state != "Z" && state != "X").then_some(Self { parent, group })
    }
}

fn pids() -> impl Iterator<Item = String> {
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn arguments_of(pid: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The processes that have a text among their arguments.
pub fn pids_with_argument(text: &str) -> Vec<String> {
    let has = |pid: &String| String::from_utf8_lossy(&arguments_of(pid)).contains(text) && Seen::of(pid).is_some();
    pids().filter(has).collect()
}

/// The children of a worker whose last argument is this.
pub fn children_called(worker: &Process, name: &str) -> Vec<String> {
    let (worker, last) = (worker.child.id().to_string(), format!("\0{name}\0"));
    let is_it = |pid: &String| {
        arguments_of(pid).ends_with(last.as_bytes()) && Seen::of(pid).is_some_and(|seen| seen.parent == worker)
    };
    pids().filter(is_it).collect()
}

/// The pid of the process that watches over this worker's programs.
pub fn watcher_of(worker: &Process) -> Option<String> {
    let mut watchers = children_called(worker, "redrive-reaper").into_iter();
    let first = watchers.next();
    assert!(watchers.next().is_none(), "one watches over all programs of a worker");
    first
}
