//! `redrive bench`: how fast this machine's database is under Redrive, and under a bare loop of the same statements.

mod measure;
mod plain;
pub mod queue;
mod queue_loop;
mod scratch;
pub mod state;
mod state_rows;
