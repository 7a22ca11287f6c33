//! What a process counts of its own work, and the text in which Prometheus reads it.
//!
//! Whoever starts a process makes one [`Metrics`] and gives it to the store that the process opens. What is committed is
//! counted there, whether a worker, the API or a sweep asked for it. Nothing here reads a clock, a file or a socket, and no
//! customer, key or run ever becomes a label.

mod event;
mod histogram;
mod names;
mod registry;
mod text;

pub use event::{AttemptEnded, Event, Op, Outcome, Queue};
pub use histogram::Histogram;
pub use names::MOST_NAMES;
pub use registry::Metrics;
pub use text::{Family, Kind, Label, Page, number};
