//! A program and everything in its group: who waits for it, and how it ends.
//!
//! The program is not reaped before its group has been ended. Until then neither id can be given to another process, so a
//! signal to the group can only reach what the program itself started.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::oneshot;

use super::group::{Group, id_of};
use super::reaper::ChildReaper;
use super::tracker::ChildGuard;

/// What a process has between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(2);
/// How long a process that was ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a leader is looked at that has closed its stderr and not exited: at first, and at the least.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Process {
    /// None once it has been reaped or given to the thread that ends it.
    leader: Option<Leader>,
    id: Pid,
    /// Listened to since before the start, so that no news can be missed.
    news: Signals,
    /// The reading end once more. It hangs up when the last process of the group is gone.
    stderr: Option<OwnedFd>,
    /// The task that drains stderr goes on until this is dropped: a program that is asked to end may say so, and must not be
    /// ended by a broken pipe before it has put its things in order.
    stderr_wanted: Option<oneshot::Sender<()>>,
}

impl Process {
    pub(super) fn start(
        command: &mut std::process::Command,
        reaper: &ChildReaper,
        tracked: ChildGuard,
        stderr_wanted: oneshot::Sender<()>,
    ) -> io::Result<(Self, Pipes)> {
        use std::os::unix::process::CommandExt as _;

        let news = signal(SignalKind::child())?;
        // The group first, and on the reaper's list: no program runs before it is watched.
        let prepared = Group::prepare(reaper).inspect_err(|error| reaper.no_keeper(error)).ok();
        let joined = prepared.as_ref().map_or(0, |group| group.id().as_raw_nonzero().get());
        let mut child = command.process_group(joined).spawn()?;
        let pipes = Pipes { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() };
        let id = id_of(&child)?;
        let group = match prepared {
            Some(group) => group,
            None => Group::led_by(&child, reaper)?,
        };
        tracing::debug!(process = id.as_raw_nonzero(), "started a program");
        let leader = Leader { child, id, group, tracked: Some(tracked) };
        let stderr = pipes.stderr.as_ref().and_then(|stderr| stderr.as_fd().try_clone_to_owned().ok());
        Ok((Self { leader: Some(leader), id, news, stderr, stderr_wanted: Some(stderr_wanted) }, pipes))
    }

    /// Waits until the leader has exited, and leaves it to be reaped.
    pub(super) async fn exited(&mut self) -> io::Result<()> {
        while !has_exited(self.id)? {
            self.news.recv().await;
        }
        Ok(())
    }

    /// Ends what the leader left behind, once it has exited, and reaps it.
    pub(super) async fn finish(&mut self) -> io::Result<ExitStatus> {
        self.exited().await?;
        match self.leader.take() {
            Some(mut leader) => leader.reap(),
            None => Err(io::Error::other("the process was reaped before")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut leader) = self.leader.take() else { return };
        let (id, stderr, stderr_wanted) = (self.id, self.stderr.take(), self.stderr_wanted.take());
        leader.group.signal(Signal::TERM);
        // No task: a runtime that is being shut down would drop it, and with it the last word.
        let last_word = move || {
            await_end(id, stderr, Instant::now() + GRACE);
            leader.group.end();
            if !exits_by(id, Instant::now() + PATIENCE) {
                leader.give_up();
            }
            drop(stderr_wanted);
            let _ = leader.reap();
        };
        if let Err(error) = thread::Builder::new().name("redrive-reaper".to_owned()).spawn(last_word) {
            tracing::debug!(process = ?id, %error, "no thread to wait for a program; it was ended at once");
        }
    }
}

/// The program itself, from its start until it is reaped. Dropping it ends its group.
#[derive(Debug)]
struct Leader {
    child: std::process::Child,
    id: Pid,
    group: Group,
    /// None once no caller waits for it any more.
    tracked: Option<ChildGuard>,
}

impl Leader {
    /// Nothing ends it: it runs as another user, or hangs in the kernel. Its attempt must not hang with it.
    fn give_up(&mut self) {
        tracing::warn!(process = self.id.as_raw_nonzero(), "a program could not be ended, and is left alone");
        self.tracked = None;
    }

    /// Ends what is left of the group, and waits for the program.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.group.end();
        self.child.wait()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.reap();
    }
}

/// Returns when the group has ended, or at the latest then. While a process of it holds stderr it has things to put in
/// order, although its leader may be gone.
fn await_end(leader: Pid, stderr: Option<OwnedFd>, latest: Instant) {
    if let Some(stderr) = stderr {
        await_hangup(&stderr, latest);
    }
    exits_by(leader, latest);
}

/// Whether the leader has exited, now or at the latest then.
fn exits_by(leader: Pid, latest: Instant) -> bool {
    let mut pause = FIRST_LOOK;
    while matches!(has_exited(leader), Ok(false)) {
        if Instant::now() >= latest {
            return false;
        }
        thread::sleep(pause.min(latest.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LAST_LOOK);
    }
    true
}

/// Returns when no process has the writing end any more, or at the latest then.
fn await_hangup(pipe: &OwnedFd, latest: Instant) {
    loop {
        let left = Timespec::try_from(latest.saturating_duration_since(Instant::now()));
        let Ok(left) = left else { return };
        // No event is asked for: the system reports a hang-up in any case.
        match poll(&mut [PollFd::new(pipe, PollFlags::empty())], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<std::process::ChildStdin>,
    pub(super) stdout: Option<std::process::ChildStdout>,
    pub(super) stderr: Option<std::process::ChildStderr>,
}

fn has_exited(leader: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(leader), options)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::super::tracker::ChildTracker;
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_a_program_that_was_given_up() {
        let (tracker, reaper) = (ChildTracker::default(), ChildReaper::default());
        let child = std::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let (id, group) = (id_of(&child).unwrap(), Group::led_by(&child, &reaper).unwrap());
        let mut leader = Leader { child, id, group, tracked: Some(tracker.track()) };
        assert!(!exits_by(id, Instant::now()), "it is at work");
        leader.give_up();
        tokio::time::timeout(GRACE, tracker.ended()).await.expect("it was waited for");
        assert!(!exits_by(id, Instant::now()), "it is at work still");
        leader.reap().unwrap();
    }
}
