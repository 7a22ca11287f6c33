//! The control plane: it decides which partitions are wanted and when, and keeps a trail of every decision.
//!
//! It never touches raw data, makes a run_id or gives a verdict: its handles have no way to. People, the HTTP API and
//! the daemon come through the same functions.

mod backfill;
mod cooldowns;
pub mod daemon;
pub mod dates;
mod error;
pub mod expected;
pub mod explain;
mod insight;
mod operate;
mod plan;
mod plane;
mod request;
pub mod safety;
pub mod shape;
mod sink;
mod sources;
mod undo;

pub use cooldowns::Lift;
pub use error::Error;
pub use insight::Insight;
pub use plan::Plan;
pub use plane::ControlPlane;
pub use request::{Order, Request, Verb, Watch};
pub use shape::{Halt, Report};
pub use sink::Sink;
pub use sources::{SourceRules, Sources};
