//! The description of the API as OpenAPI 3.1, made from the table of routes and the types that routes take and give.

mod answer;
mod document;
mod parameters;
mod problems;

pub use answer::{Answer, Gives, Link, Takes};
pub use document::describe;
pub use parameters::{NO_NUL, of_filter};
