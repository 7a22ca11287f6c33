//! The validator: the only one who says what became of an attempt.
//!
//! It judges what lies in the raw sink, the manifest and the parts, and changes nothing there. Records are streamed: what
//! is in memory does not grow with the partition, not even for `unique`. What rules mean, and how findings are worded,
//! is pure and in [`redrive_core::validation`].

mod abandoned;
mod check;
mod feed;
mod judge;
mod lines;
mod program;
mod rules;
mod schema;
mod scratch;
mod settings;
mod unique;
mod verdict;

pub use abandoned::leave_word;
pub(crate) use judge::judge_written;
pub use judge::{Submission, judge};
pub use program::ValidatorProgram;
pub use redrive_core::validation::FieldType;
pub use redrive_store::JudgedAttempt;
pub use rules::Rules;
pub use scratch::Scratch;
pub use settings::Settings;
pub use verdict::{Recorder, Verdict};
