//! The overview: what needs a person first, then how everything stands. Every count is bounded, so that the answer comes at
//! once however much there is.

mod attention;
mod gather;
mod gauges;
mod overview;
mod remedy;

pub use attention::{Attention, Need, attention};
pub use gauges::{Gauges, ProcessState, SourceGauge};
pub use remedy::{Remedy, RemedyWords};
