//! Why a partition is not running now: one reason of a closed list, and the arithmetic behind it.

mod absent;
mod partition;
mod scene;

pub use partition::{Action, Explanation};
pub(crate) use scene::span;
