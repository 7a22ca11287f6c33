//! How long requests took, by route, method and status. Routes are those of the table, so that their number is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;

use super::text::{Kind, Page};

/// Seconds.
const LIMITS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<Asked, Took>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    route: String,
    method: String,
    status: u16,
}

#[derive(Debug, Default)]
struct Took {
    /// How many took at most so long.
    below: [u64; LIMITS.len()],
    sum: f64,
    count: u64,
}

impl Requests {
    /// Counts a request. Routes and methods that nobody serves are one: a scanner must not make series.
    pub(crate) fn count(&self, route: &str, method: &Method, status: u16, took: Duration) {
        let is_known = [Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method);
        let method = if is_known { method.as_str() } else { "other" };
        let asked = Asked { route: route.to_owned(), method: method.to_owned(), status };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(asked).or_default();
        let seconds = took.as_secs_f64();
        for (below, _) in entry.below.iter_mut().zip(LIMITS).filter(|(_, limit)| seconds <= *limit) {
            *below += 1;
        }
        entry.sum += seconds;
        entry.count += 1;
    }

    pub(super) fn write(&self, page: &mut Page) {
        let help = "How long requests took until their answer began.";
        let mut family = page.family("redrive_http_request_duration_seconds", Kind::Histogram, help);
        for (Asked { route, method, status }, took) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let status = status.to_string();
            let labels = [("route", route.as_str()), ("method", method.as_str()), ("status", status.as_str())];
            let buckets: Vec<(f64, u64)> = LIMITS.into_iter().zip(took.below).collect();
            family.histogram(&labels, &buckets, took.sum, took.count);
        }
    }
}
