//! Jobs: each has a category, and the `[process.NAME]` section that names the category says what handles it.
//!
//! A [`Handler`] is Rust code, a program ([`Command`]) or a URL ([`Post`]). It says what it found, or what went wrong and of
//! which class; when a job is tried again is the policy's to say. A section that another process serves, by way of the
//! API, has no handler here.

mod answer;
mod attempt;
mod command;
mod context;
mod discover;
mod handler;
mod job;
pub(crate) mod log;
mod post;
mod sample;
mod section;
mod unserved;
mod workload;

pub use crate::failure::Failure;
pub use answer::Answer;
pub use command::{Command, CommandSettings};
pub use context::{Cancellation, Context};
pub use discover::{Discover, DiscoverPace, Discovered, Discovery};
pub use handler::{Error, Handler};
pub use job::Job;
pub use post::{Post, PostSettings};
pub use sample::{Sample, SampleSettings};
pub use section::{Section, Sections, TIMEOUT, TwiceServed};
pub use unserved::Unserved;
pub use workload::Workload;
