//! The worker: claims what it has room for, runs each attempt to its verdict, and ends what other workers left behind.

mod attempt;
mod claims;
mod keeper;
mod plan;
mod scouts;
mod stop;
mod tally;

pub use attempt::End;
pub use claims::{Worker, WorkerOptions};
pub use keeper::{Held, Keeper, Terms};
pub use plan::{Plan, SourcePlan};
pub use stop::Stop;
pub use tally::Tally;
