//! `redrive bench`: how fast this machine is under Redrive, and under a bare loop of the same work.
//!
//! Nothing here prints. The program hands in the database to measure and shows the [`Figures`] that come back. Only this
//! crate and the store speak SQL.

pub mod conf;
mod conf_loop;
mod conf_store;
mod error;
pub mod extract;
mod figures;
mod flags;
mod measure;
mod partition_files;
pub mod partitions;
mod plain;
pub mod queue;
mod queue_commands;
mod queue_limit;
mod queue_loop;
mod queue_worker;
mod scratch;
pub mod state;
mod state_rows;

pub use error::{Error, Result};
pub use figures::{Figures, Summary};
pub use flags::{Bench, BenchCommon, BenchConf, BenchExtract, BenchQueue, BenchState};
pub use measure::OnPhase;
