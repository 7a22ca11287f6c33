//! `http`: records from a web API that answers with JSON, page by page.
//!
//! Where an answer may lead (redirects, links to the next page) is decided here and not by the client, because an answer
//! is somebody else's text: it gets no secret that was not meant for it, and it cannot point into a private network.

mod address;
mod answer;
mod body;
mod client;
mod excerpt;
mod extractor;
mod fetch;
mod headers;
mod lines;
mod link_header;
mod pages;
mod resolver;
mod retry_after;
mod settings;
mod unzip;

pub(super) use answer::{Answer, Beginning, send};
pub(super) use body::feed;
pub(super) use client::{ClientOptions, client};
pub(super) use excerpt::excerpt;
pub use extractor::Http;
pub use headers::Header;
pub(super) use retry_after::retry_after;
pub use settings::{Format, Method, RateLimitScope, Settings};
