//! Runs as operators deal with them: submitting, finding, explaining.

mod explain;
mod filter;
mod find;
mod history;
mod prune;
mod queues;
mod submit;

pub use explain::{RunAction, RunExplanation};
pub use filter::RunFilter;
pub use prune::PruneReport;
pub use queues::{Queue, Queues};
