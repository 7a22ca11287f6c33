//! Picks records out of a JSON document while its bytes arrive.
//!
//! The document is read once, in pieces of any size, and checked as it goes; what is held is one record, a few small
//! values, and the stack of open brackets. Whether it was whole is known only at [`RecordStream::finish`].

mod fault;
mod number;
mod path;
mod path_matcher;
mod record_stream;
mod scanner;
mod string;

pub use fault::Fault;
pub use path::{Path, Step};
pub use record_stream::RecordStream;

#[cfg(test)]
mod tests;
