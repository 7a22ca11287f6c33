//! Holds as they are kept. What each means is `redrive_core::hold`'s.
//!
//! A scope has at most one hold of each kind. The data plane's handle can begin cooldowns and breakers, because they only
//! withhold; only the control plane's can set and lift what a person decides.

mod breaker;
mod change;
mod cooldown;
mod row;

pub(crate) use breaker::{NotedVerdict, careful, note, sent};
pub use change::HoldChange;
pub use cooldown::Cooldown;
pub(crate) use row::{fragment, in_force, snapshot};
