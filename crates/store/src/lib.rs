//! What lasts: the database, SQLite or PostgreSQL behind one type, and the raw sink.
//!
//! [`Store`] gives each plane its own handle: [`ControlStore`] can requeue and withhold, [`DataStore`] can claim and
//! record, [`View`] can look. Rules are not here: every change is decided by `redrive_core` and written under a guard.

mod aggregates;
mod audit;
mod backlog;
mod claim;
pub mod clock;
mod control;
mod cooldowns;
mod data;
mod db;
mod error;
mod ids;
mod migrate;
mod partition_row;
mod partitions;
pub mod raw;
mod rejected;
mod runs;
mod stanzas;
pub mod statements;
mod store;
mod url;
mod view;

pub use aggregates::{PartitionMetrics, RunMetrics};
pub use audit::{AuditedChange, Head, Operation, PastOperation, Verified};
pub use backlog::{Backlog, Queued};
pub use claim::{ClaimedPartition, PartitionClaim, Rotation};
pub use control::{ControlStore, Decided, Outcome};
pub use cooldowns::Cooldown;
pub use data::DataStore;
pub use db::{Options, Schema};
pub use error::{Error, Result};
pub use migrate::SUPPORTED as SCHEMA_VERSION;
pub use partitions::{Band, Page, Reach, Stretch};
pub use runs::{ClaimedRun, NewRun, PastFailure, Recorded, RunClaim, RunPage, Running, Submitted};
pub use stanzas::{NewFile, NewStanza, Stanza};
pub use store::{Open, Store};
pub use url::{StoreUrl, redacted};
pub use view::View;
