//! Programs: started in a process group of their own, fed on stdin, read in large blocks, and never left behind.
//!
//! Dropping a [`Child`] ends everything that it started, and its [`ChildTracker`] says when that is over; where this
//! process itself is killed, the [`ChildReaper`] ends it. A program does not run before it is watched. Stderr is drained beside stdout, so that neither pipe can
//! block the other. Nothing here knows what a program is for: any workload may start one.

mod blocks;
mod child;
mod end;
mod find;
mod group;
mod process;
mod reaper;
mod secret;
mod stderr;
mod template;
mod tracker;

pub(crate) use blocks::Cut;
pub(crate) use child::{Child, Start, Stdin};
pub(crate) use end::End;
pub use reaper::ChildReaper;
pub(crate) use secret::SecretProgram;
pub(crate) use stderr::Watch;
pub(crate) use template::{Invocation, Launch, Program};
pub use tracker::ChildTracker;
