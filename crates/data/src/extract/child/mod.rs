//! Programs that bring records: started in a process group of their own, read in large blocks, and never left behind.
//!
//! Whoever drops a [`Child`] ends everything that it started, and may wait for it with its [`Roster`]; where this process
//! itself is killed, [`Leash`] ends it. What a program says on stderr is drained beside its output, so that neither pipe
//! can block the other.

mod blocks;
mod end;
mod leash;
mod process;
mod program;
mod roster;
mod stderr;

pub(super) use blocks::Cut;
pub(super) use end::End;
pub use leash::Leash;
pub(super) use program::{Child, Launch, Program};
pub use roster::Roster;
pub(super) use stderr::Watch;
