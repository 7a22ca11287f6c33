//! HTTP exchanges: every wait has an end, answers cannot lead into a private network, and every fault becomes a failure
//! that names the request without its query. Nothing here knows what a request is for: any workload may send one.

mod client;
mod excerpt;
mod guard;
mod headers;
mod proxy;
mod request;
mod response;
mod retry_after;
mod unzip;

pub(crate) use client::{Client, ClientOptions, MAX_RATIO};
pub(crate) use excerpt::excerpt;
pub(crate) use headers::{Headers, ResolvedHeader};
pub(crate) use proxy::Proxy;
pub(crate) use request::Request;
pub(crate) use response::{Beginning, Response, without_query};
pub(crate) use retry_after::retry_after;
