//! How long requests took, by route, method and status.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use redrive_metrics::{Histogram, Kind, Page};

/// Seconds.
const LIMITS: [f64; 7] = [0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

/// How many answers are told apart. Callers choose what they are refused for, and every route can refuse in ten ways.
const MOST: usize = 64;

/// What all others are counted under.
const OTHER: &str = "other";

#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<Asked, Histogram>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    route: String,
    method: String,
    status: u16,
}

impl Requests {
    /// Counts a request. Routes and methods that nobody serves are one: a scanner must not make series.
    pub(crate) fn count(&self, route: &str, method: &Method, status: u16, took: Duration) {
        let is_known = [Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method);
        let method = if is_known { method.as_str() } else { OTHER };
        let asked = Asked { route: route.to_owned(), method: method.to_owned(), status };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = match all.contains_key(&asked) || all.len() < MOST {
            true => asked,
            // By the hundreds of their statuses: still whether the server failed or refused.
            false => Asked { route: OTHER.to_owned(), method: OTHER.to_owned(), status: status / 100 * 100 },
        };
        all.entry(asked).or_insert_with(|| Histogram::new(&LIMITS)).observe(took);
    }

    pub(super) fn write(&self, page: &mut Page) {
        let help = "How long requests took until their answer began.";
        let mut family = page.family("redrive_http_request_duration_seconds", Kind::Histogram, help);
        for (Asked { route, method, status }, took) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let status = status.to_string();
            let labels = [("route", route.as_str()), ("method", method.as_str()), ("status", status.as_str())];
            took.write(&mut family, &labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_callers_err_the_series_are_few() {
        let requests = Requests::default();
        for route in 0..100 {
            for status in 400..440 {
                let took = Duration::from_millis(1);
                requests.count(&format!("/v1/{route}"), &Method::GET, status, took);
            }
        }
        let mut page = Page::default();
        requests.write(&mut page);
        let text = page.into_text();
        assert_eq!(text.lines().filter(|line| line.contains("_count{")).count(), MOST + 1);
        let others = format!("{{route=\"other\",method=\"other\",status=\"400\"}} {}", 4000 - MOST);
        assert!(text.lines().any(|line| line.ends_with(&others)), "{text}");
    }
}
