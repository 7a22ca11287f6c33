//! A process and everything in its group: who waits for it, and how it ends.
//!
//! The leader is not reaped before its group has been ended. Until then its id cannot be given to anybody else, so a
//! signal to the group can only reach what the program itself started.

use std::io;
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::sync::watch;

use super::leash::{Hold, Leash};

/// What a process has between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(2);

/// How many programs were told to end and have not been reaped yet. They belong to the process as a whole.
static ENDING: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::channel(0).0);

/// Returns when no program that was told to end is left: at once, or within seconds.
pub async fn children_ended() {
    // The sender is never dropped, so waiting cannot fail.
    let _ = ENDING.subscribe().wait_for(|ending| *ending == 0).await;
}

#[derive(Debug)]
pub(super) struct Process {
    /// None once it has been reaped or given to whoever ends it.
    leader: Option<Leader>,
    group: Pid,
    /// Listened to since before the start, so that no news can be missed.
    news: Signals,
    /// Whoever drains stderr goes on until this is dropped: a program that is asked to end may say so, and must not be
    /// ended by a broken pipe before it has put its things in order.
    stderr_wanted: Option<oneshot::Sender<()>>,
}

impl Process {
    pub(super) fn start(
        command: &mut std::process::Command,
        leash: &Leash,
        stderr_wanted: oneshot::Sender<()>,
    ) -> io::Result<(Self, Pipes)> {
        use std::os::unix::process::CommandExt as _;

        let news = signal(SignalKind::child())?;
        // Before the start, so that nothing but one write lies between the start and the hold.
        leash.ready();
        let mut child = command.process_group(0).spawn()?;
        let pipes = Pipes { stdout: child.stdout.take(), stderr: child.stderr.take() };
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("the operating system gave an impossible process id"))?;
        let leader = Leader { child, group, hold: leash.hold(group) };
        tracing::debug!(group = group.as_raw_nonzero(), "started a program");
        Ok((Self { leader: Some(leader), group, news, stderr_wanted: Some(stderr_wanted) }, pipes))
    }

    /// Waits until the leader has exited, and leaves it to be reaped.
    pub(super) async fn exited(&mut self) -> io::Result<()> {
        while !has_exited(self.group)? {
            self.news.recv().await;
        }
        Ok(())
    }

    /// Ends what the leader left behind, once it has exited, and reaps it.
    pub(super) async fn finish(&mut self) -> io::Result<ExitStatus> {
        self.exited().await?;
        match self.leader.take() {
            Some(leader) => leader.reap(),
            None => Err(io::Error::other("the process was reaped before")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        let (group, stderr_wanted) = (self.group, self.stderr_wanted.take());
        end(group, Signal::TERM);
        ENDING.send_modify(|ending| *ending += 1);
        // No task: a runtime that is being shut down would drop it, and with it the last word.
        let last_word = move || {
            thread::sleep(GRACE);
            let _ = leader.reap();
            drop(stderr_wanted);
            ENDING.send_modify(|ending| *ending -= 1);
        };
        if thread::Builder::new().name("redrive-reaper".to_owned()).spawn(last_word).is_err() {
            end(group, Signal::KILL);
            ENDING.send_modify(|ending| *ending -= 1);
        }
    }
}

/// The first process of a group, from its start until it is reaped.
#[derive(Debug)]
struct Leader {
    child: std::process::Child,
    group: Pid,
    hold: Hold,
}

impl Leader {
    /// Ends what is left of the group, and waits for the leader.
    fn reap(self) -> io::Result<ExitStatus> {
        let Self { mut child, group, hold } = self;
        end(group, Signal::KILL);
        // Before the id is free: the next who gets it is none of ours, and must not be killed for this one.
        drop(hold);
        child.wait()
    }
}

#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdout: Option<std::process::ChildStdout>,
    pub(super) stderr: Option<std::process::ChildStderr>,
}

fn has_exited(leader: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(leader), options)?.is_some())
}

/// A group that is gone already needs no signal.
fn end(group: Pid, by: Signal) {
    if let Err(error) = kill_process_group(group, by) {
        tracing::debug!(?group, ?by, %error, "could not signal a process group");
    }
}
