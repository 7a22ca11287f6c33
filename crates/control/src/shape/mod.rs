//! What scripts rely on: the JSON that the command line prints and the HTTP API serves. Fields are in the documented order.

mod attempt;
mod cooldown;
mod operation;
mod partition;
mod report;

pub use attempt::AttemptShape;
pub use cooldown::CooldownShape;
pub use operation::{ChangeShape, OperationShape};
pub use partition::{MarkShape, PartitionShape, TerminalShape};
pub use report::{Changed, Failed, Halt, Report, Skipped};
