//! A process group that is watched from before its program starts until the program has ended.
//!
//! A program that is started first and named to the reaper afterwards runs unwatched in between, and a worker that is killed
//! just then leaves it behind. So the group comes first: a small shell, the keeper, makes the group, the reaper puts it on its
//! list, and only then is the program started, as a member. A worker that is killed while the system starts the program leaves
//! a group that is killed until it is gone, and a group that is gone cannot be joined.
//!
//! The keeper is a second watcher beside the reaper: when its pipe from this process closes, it kills its own group. Until the
//! keeper is reaped, the group's id cannot be given to another process.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::reaper::{ChildReaper, ReaperGuard, SHELL};

/// Only this process's end closes the pipe: nothing is ever written to it.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r _; kill -s KILL 0";

#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    /// None where no shell could be started; then the program itself leads the group.
    keeper: Option<Child>,
    /// None once the group was ended.
    hold: Option<ReaperGuard>,
}

impl Group {
    /// Makes a group that the reaper holds and no program is in yet.
    pub(super) fn prepare(reaper: &ChildReaper) -> io::Result<Self> {
        let mut command = Command::new(SHELL);
        command.args(["-c", SCRIPT, "redrive-group"]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = command.process_group(0).spawn()?;
        let id = id_of(&keeper)?;
        Ok(Self { id, keeper: Some(keeper), hold: Some(reaper.hold(id)) })
    }

    /// The group of a program that was started without a keeper.
    pub(super) fn led_by(program: &Child, reaper: &ChildReaper) -> io::Result<Self> {
        let id = id_of(program)?;
        Ok(Self { id, keeper: None, hold: Some(reaper.hold(id)) })
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// A group that is gone already needs no signal.
    pub(super) fn signal(&self, by: Signal) {
        if self.hold.is_none() {
            return;
        }
        if let Err(error) = kill_process_group(self.id, by) {
            tracing::debug!(group = ?self.id, ?by, %error, "could not signal a process group");
        }
    }

    /// Kills what is in it. A program without a keeper must be reaped after this, never before.
    pub(super) fn end(&mut self) {
        self.signal(Signal::KILL);
        // Before the id is free: the next process that gets it is none of ours, and must not be killed for this group.
        self.hold = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        if let Some(keeper) = &mut self.keeper {
            let _ = keeper.wait();
        }
    }
}

pub(super) fn id_of(child: &Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the operating system gave an impossible process id"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleep_in(group: Pid) -> Child {
        Command::new("sleep").arg("600").process_group(group.as_raw_nonzero().get()).spawn().unwrap()
    }

    #[test]
    fn a_group_is_held_before_its_program_and_ends_with_it() {
        let group = Group::prepare(&ChildReaper::default()).unwrap();
        let mut program = sleep_in(group.id());
        drop(group);
        assert_eq!(program.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    /// The reaper knows nothing of it, as if it had been killed with the worker.
    #[test]
    fn the_keeper_ends_its_group_without_a_reaper() {
        let mut group = Group::prepare(&ChildReaper::default()).unwrap();
        let mut program = sleep_in(group.id());
        group.hold = None;
        drop(group.keeper.as_mut().unwrap().stdin.take());
        assert_eq!(program.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
