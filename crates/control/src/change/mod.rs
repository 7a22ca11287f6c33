//! The one way in which many partitions or runs change: selected in an order, decided one by one, written in chunks, each
//! chunk one transaction with its audit rows. What was counted and confirmed is what is done.

mod applied;
mod ask;
mod backfill;
mod beside;
mod by_plan;
mod durable;
mod foresee;
mod judge;
mod kept;
mod operate;
mod plan;
mod runs;
mod select;
mod undo;

pub use applied::{PlanOutline, PlanPrefix};
pub use ask::PlanAsk;
pub use durable::CarriedOn;
pub use operate::Watch;
pub use plan::{Plan, PlannedVerb};
pub use runs::{RunRequest, RunSelection, RunVerb};
pub(crate) use select::same_query;
pub use select::{Request, Verb};
