//! Picks records out of a JSON document while its bytes arrive.
//!
//! The document is read once, in pieces of any size, and checked as it goes; what is held is one record, a few small
//! values, and the stack of open brackets. Whether it was whole is known only at [`Picker::finish`].

mod fault;
mod number;
mod path;
mod picker;
mod scanner;
mod string;
mod way;

pub use fault::Fault;
pub use path::{Path, Step};
pub use picker::Picker;

#[cfg(test)]
mod tests;
