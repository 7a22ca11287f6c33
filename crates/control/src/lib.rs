//! The control plane: it decides which partitions are wanted and when, and keeps a trail of every decision.
//!
//! It never touches raw data, makes a run_id or gives a verdict: its handles have no way to. People, the HTTP API and
//! the daemon come through the same functions.

mod audit;
mod change;
pub mod daemon;
pub mod dates;
mod drain;
mod episodes;
mod error;
pub mod expected;
pub mod explain;
mod groups;
mod heatmap;
mod holds;
mod insight;
mod operations;
mod plane;
mod prefix;
mod ready;
pub mod runs;
pub mod shape;
mod sink;
mod sources;
pub mod status;
pub mod uploads;

pub use audit::Audit;
pub use change::{
    CarriedOn, Plan, PlanAsk, PlanOutline, PlanPrefix, PlannedVerb, Request, RunRequest, RunSelection, RunVerb, Verb,
    Watch,
};
pub use error::{Error, Result};
pub use heatmap::{HeatmapShape, SeriesShape};
pub use insight::Insight;
pub use operations::{OperationFilter, Operations};
pub use plane::ControlPlane;
pub use prefix::{Found, IdPrefix, NoId};
pub use shape::{Halt, Report};
pub use sink::Sink;
pub use sources::{SourceRules, Sources};
