//! What lasts: the database, SQLite or PostgreSQL behind one type, and the raw sink.
//!
//! [`Store`] gives each plane its own handle: [`ControlStore`] can requeue and withhold, [`DataStore`] can claim and
//! record, [`View`] can look. Rules are not here: every change is decided by `redrive_core` and written under a guard.

mod aggregates;
mod audit;
pub mod clock;
mod control;
mod cooldowns;
mod data;
mod db;
mod error;
mod ids;
mod migrate;
mod partitions;
pub mod raw;
mod runs;
mod series;
pub mod statements;
mod store;
pub mod trust;
mod url;
mod view;

pub use aggregates::{PartitionMetrics, RunMetrics};
pub use audit::{AuditedChange, Head, Operation, PastOperation, Verified};
pub use control::ControlStore;
pub use data::DataStore;
pub use db::{Listen, Options, Schema};
pub use error::{Error, Result};
pub use migrate::SUPPORTED as SCHEMA_VERSION;
pub use partitions::{
    Backlog, ClaimedPartition, Decided, DueBand, DueQuery, Outcome, Page, PartitionClaim, QuerySpan, Queued, Rotation,
};
pub use redrive_core::cooldown::Cooldown;
pub use runs::{
    ClaimedRun, Heartbeat, HeartbeatAnswer, JudgedAttempt, NewRun, PastFailure, Recorded, RunClaim, RunPage, Running,
    Submitted,
};
pub use store::{Open, Store};
pub use url::{StoreUrl, redacted};
pub use view::View;
