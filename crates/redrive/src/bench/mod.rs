//! `redrive bench`: how fast this machine is under Redrive, and under a bare loop of the same work.

pub mod extract;
mod measure;
mod plain;
pub mod queue;
mod queue_loop;
mod scratch;
pub mod state;
mod state_rows;
