//! Kills this process's programs when this process itself is killed.
//!
//! A worker that is killed cannot end what it started. A quiet program would go on asking its source for data that
//! nobody takes any more, while another worker asks for the same. So a small shell watches: the reaper writes to it each
//! process group that begins and each that has ended, and when the pipe closes, the shell kills the groups that are left.
//! One shell serves a whole process. A program that leaves its process group is not covered.
//!
//! A watcher that dies is replaced at once: a thread waits for the end of its stdout, on which it writes nothing.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use rustix::process::Pid;

pub(super) const SHELL: &str = "/bin/sh";

/// A line `place group` puts a group into a place, a line `place` empties it. Places are used again, so a line costs the
/// same however many there are, and no more are needed than programs run at once.
///
/// A group is killed again until it is gone: while its keeper is dead and not yet reaped, a program whose start the dead
/// process had begun can still join.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
top=-1
while read -r place group; do
    eval "group_$place=\$group"
    case $((place > top)) in 1) top=$place ;; esac
done
round=0
left=yes
while [ $left = yes ] && [ "$round" -lt 200 ]; do
    case $round in 0) ;; *) sleep 0.05 ;; esac
    round=$((round + 1))
    left=no
    place=$top
    while [ "$place" -ge 0 ]; do
        eval "group=\$group_$place"
        case $group in ?*) if kill -s KILL -- "-$group"; then left=yes; else eval "group_$place="; fi ;; esac
        place=$((place - 1))
    done
done
"#;

/// Shared by everything that starts programs; the watcher is started with the first program.
#[derive(Debug, Clone)]
pub struct ChildReaper(Arc<Mutex<Groups>>);

impl Default for ChildReaper {
    fn default() -> Self {
        Self(Arc::new_cyclic(|groups| Mutex::new(Groups::new(groups.clone()))))
    }
}

impl ChildReaper {
    /// A program is started without a keeper, and unwatched until it runs.
    pub(super) fn no_keeper(&self, error: &io::Error) {
        self.lock().warn("cannot be started for a program", error);
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
    /// For the thread that notices a watcher's death.
    own: Weak<Mutex<Self>>,
}

impl Groups {
    fn new(own: Weak<Mutex<Self>>) -> Self {
        Self { shell: SHELL, watcher: None, places: Vec::new(), has_warned: false, own }
    }

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
            Ok(mut watcher) => {
                self.notice_its_death(&mut watcher);
                self.watcher = Some(watcher);
            }
            Err(error) => self.warn("cannot be started", &error),
        }
    }

    /// Without a thread, a dead watcher is noticed when the next program starts or ends.
    fn notice_its_death(&self, watcher: &mut Watcher) {
        let Some(mut silence) = watcher.0.stdout.take() else { return };
        let (own, id) = (self.own.clone(), watcher.0.id());
        let wait = move || {
            let _ = io::copy(&mut silence, &mut io::sink());
            let Some(groups) = own.upgrade() else { return };
            let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
            if groups.watcher.as_ref().is_some_and(|watcher| watcher.0.id() == id) {
                groups.warn("was lost, and another is started", &io::Error::other("it has ended"));
                groups.start();
            }
        };
        if let Err(error) = thread::Builder::new().name("redrive-reaper".to_owned()).spawn(wait) {
            tracing::debug!(%error, "no thread to wait for the watcher's end");
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
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
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
