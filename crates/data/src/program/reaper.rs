//! Kills this process's programs when this process itself is killed.
//!
//! A worker that is killed cannot end what it started. A quiet program would go on asking its source for data that
//! nobody takes any more, while another worker asks for the same. So a small shell watches: the reaper writes to it each
//! process group that begins and each that has ended, and when the pipe closes, the shell kills the groups that are left.
//! One shell serves a whole process. A program that leaves its process group is not covered.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

const SHELL: &str = "/bin/sh";

/// A line `place group` puts a group into a place, a line `place` empties it. Places are used again, so a line costs the
/// same however many there are, and no more are needed than programs run at once.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
top=-1
while read -r place group; do
    eval "group_$place=\$group"
    case $((place > top)) in 1) top=$place ;; esac
done
while [ "$top" -ge 0 ]; do
    eval "group=\$group_$top"
    case $group in ?*) kill -s KILL -- "-$group" ;; esac
    top=$((top - 1))
done
"#;

/// Shared by everything that starts programs; the watcher is started with the first program.
#[derive(Debug, Clone, Default)]
pub struct ChildReaper(Arc<Mutex<Groups>>);

impl ChildReaper {
    /// Has the watcher started before it is needed.
    pub(super) fn ready(&self) {
        let mut groups = self.lock();
        if groups.watcher.is_none() {
            groups.start();
        }
    }

    /// Has the group end with this process, until the guard is dropped.
    pub(super) fn hold(&self, group: Pid) -> ReaperGuard {
        let place = self.lock().take(group);
        ReaperGuard { reaper: self.clone(), place }
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        // A place is written whole, even by a thread that panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process group that the reaper covers. Dropped before the group's id can belong to another program.
#[derive(Debug)]
pub(super) struct ReaperGuard {
    reaper: ChildReaper,
    place: usize,
}

impl Drop for ReaperGuard {
    fn drop(&mut self) {
        self.reaper.lock().put(self.place, None);
    }
}

#[derive(Debug)]
struct Groups {
    shell: &'static str,
    watcher: Option<Watcher>,
    /// What the watcher knows, so that its successor can be given the same.
    places: Vec<Option<Pid>>,
    has_warned: bool,
}

impl Default for Groups {
    fn default() -> Self {
        Self { shell: SHELL, watcher: None, places: Vec::new(), has_warned: false }
    }
}

impl Groups {
    fn take(&mut self, group: Pid) -> usize {
        let place = self.places.iter().position(Option::is_none).unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.put(place, Some(group));
        place
    }

    fn put(&mut self, place: usize, group: Option<Pid>) {
        self.places[place] = group;
        match self.watcher.as_mut().map(|watcher| watcher.tell(place, group)) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.warn("was lost, and another is started", &error);
                self.start();
            }
            None if group.is_some() => self.start(),
            None => {}
        }
    }

    /// Starts a watcher in place of any other, and tells it everything. Without one the work goes on.
    fn start(&mut self) {
        // Ended before its pipe closes, which would have it kill what is still wanted.
        self.watcher = None;
        match Watcher::start(self.shell, &self.places) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self.warn("cannot be started", &error),
        }
    }

    /// Once: a machine on which it does not work would say it with every program.
    fn warn(&mut self, what: &str, error: &io::Error) {
        if !self.has_warned {
            tracing::warn!(%error, "the watcher that ends programs should this process be killed {what}");
        }
        self.has_warned = true;
    }
}

/// The shell, with the writing end of its pipe. Dropping it ends it and kills nothing else.
#[derive(Debug)]
struct Watcher(Child);

impl Watcher {
    fn start(shell: &str, places: &[Option<Pid>]) -> io::Result<Self> {
        let mut command = Command::new(shell);
        command.args(["-c", SCRIPT, "redrive-reaper"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a group of its own, so that a Ctrl-C or a kill of the worker's whole group does not end it first.
        command.process_group(0).env_clear().current_dir("/");
        let mut watcher = Self(command.spawn()?);
        // A watcher that does not read must not hold up the work.
        rustix::io::ioctl_fionbio(watcher.pipe()?, true)?;
        for (place, group) in places.iter().enumerate().filter(|(_, group)| group.is_some()) {
            watcher.tell(place, *group)?;
        }
        Ok(watcher)
    }

    /// A line is so short that a pipe takes it whole or not at all.
    fn tell(&mut self, place: usize, group: Option<Pid>) -> io::Result<()> {
        let line = match group {
            Some(group) => format!("{place} {}\n", group.as_raw_nonzero()),
            None => format!("{place}\n"),
        };
        self.pipe()?.write_all(line.as_bytes())
    }

    fn pipe(&mut self) -> io::Result<&mut std::process::ChildStdin> {
        self.0.stdin.as_mut().ok_or_else(|| io::Error::other("it has no pipe"))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Not by closing the pipe: what is on its list may be wanted, and a stopped one would never be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests;
