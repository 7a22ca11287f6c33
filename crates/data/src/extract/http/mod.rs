//! `http`: records from a web API that answers with JSON, page by page.
//!
//! Where the next page may be is decided here, because an answer is another party's text: it gets no secret that was not
//! meant for it, and it cannot point into a private network.

mod body;
mod extractor;
mod link_header;
mod pages;
mod settings;

pub use extractor::Http;
pub use settings::{Format, Method, RateLimitScope, Settings};
