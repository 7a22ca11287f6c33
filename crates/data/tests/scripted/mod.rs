//! A web server that does what a test tells it, and a sink to extract into.

mod bed;
mod reply;
mod server;

pub use bed::{Bed, Extracted, job, settings};
pub use reply::Reply;
pub use server::{Request, Server};
