//! What the API's errors mean: a pure function of the HTTP status and the answer's text.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use serde_json::{Map, Value};

use crate::failure::{Scope, span};

/// How permanent an error is, the least first: of several, the greatest decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Retryable,
    RateLimited,
    /// A new access token may help, once.
    StaleToken,
    Final,
}

impl Kind {
    pub(super) fn class(self) -> ErrorClass {
        match self {
            Self::Retryable => ErrorClass::Retryable,
            Self::RateLimited => ErrorClass::RateLimited,
            Self::StaleToken | Self::Final => ErrorClass::Final,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) kind: Kind,
    /// What the source says, each error with its code. Not yet fit to be shown.
    pub(super) text: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) scope: Scope,
}

/// Each field is read by itself: an odd one must not hide the others.
#[derive(Debug)]
struct Report<'a> {
    code: Option<u64>,
    message: &'a str,
    status: &'a str,
    details: &'a [Value],
}

impl<'a> Report<'a> {
    fn read(error: &'a Value) -> Self {
        Self {
            code: error.get("code").and_then(Value::as_u64),
            message: text(error.get("message")),
            status: text(error.get("status")),
            details: error.get("details").and_then(Value::as_array).map_or(&[], Vec::as_slice),
        }
    }
}

#[derive(Debug)]
struct OneError<'a> {
    code: Option<&'a Map<String, Value>>,
    message: &'a str,
    rate_scope: &'a str,
    retry_delay: &'a str,
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

impl<'a> OneError<'a> {
    fn read(error: &'a Value) -> Self {
        let quota = error.get("details").and_then(|details| details.get("quotaErrorDetails"));
        Self {
            code: error.get("errorCode").and_then(Value::as_object),
            message: text(error.get("message")),
            rate_scope: text(quota.and_then(|quota| quota.get("rateScope"))),
            retry_delay: text(quota.and_then(|quota| quota.get("retryDelay"))),
        }
    }

    fn codes(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.code.into_iter().flatten()
    }
}

/// Reads an answer that is no success: `{"error":{…}}`, or the same in an array, or anything else.
pub(super) fn of_answer(status: u16, body: &[u8]) -> Meaning {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let first = match &document {
        Value::Array(all) => all.iter().find(|one| one.get("error").is_some()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Some(&document),
    };
    match first.and_then(|one| one.get("error")) {
        Some(error) => of_error(status, error),
        None => Meaning { kind: by_status(status), text: String::new(), retry_after: None, scope: Scope::Customer },
    }
}

/// Reads the object under `error`. When it came in the middle of an answer that had begun well, `status` is that answer's
/// and the object's own code counts.
pub(super) fn of_error(status: u16, error: &Value) -> Meaning {
    let report = Report::read(error);
    let errors: Vec<OneError<'_>> = report.details.iter().flat_map(ads_errors).collect();
    let kinds = errors.iter().map(kind);
    let code = report.code.and_then(|code| u16::try_from(code).ok());
    let kind = kinds.max().unwrap_or_else(|| by_status(code.unwrap_or(status)));
    let texts: Vec<String> = errors.iter().map(describe).collect();
    let text = if texts.is_empty() { status_and_message(&report) } else { texts.join("; ") };
    let delays = errors.iter().map(|error| error.retry_delay);
    let is_source = |error: &OneError<'_>| error.rate_scope == "DEVELOPER";
    Meaning {
        kind,
        text,
        retry_after: delays.chain(report.details.iter().filter_map(retry_info)).filter_map(delay).max(),
        scope: if errors.iter().any(is_source) { Scope::Source } else { Scope::Customer },
    }
}

/// The errors of a detail that is a `GoogleAdsFailure` of any version.
fn ads_errors(detail: &Value) -> Vec<OneError<'_>> {
    if !is_type(detail, ".GoogleAdsFailure") {
        return Vec::new();
    }
    let errors = detail.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    errors.iter().map(OneError::read).collect()
}

fn retry_info(detail: &Value) -> Option<&str> {
    if is_type(detail, ".RetryInfo") { detail.get("retryDelay")?.as_str() } else { None }
}

fn is_type(detail: &Value, suffix: &str) -> bool {
    detail.get("@type").and_then(Value::as_str).is_some_and(|name| name.ends_with(suffix))
}

/// The table of codes: a category, and a word within it. What is not in it may help when tried again.
fn kind(error: &OneError<'_>) -> Kind {
    let words = error.codes().map(|(category, word)| (category.as_str(), word.as_str().unwrap_or_default()));
    let kinds = words.map(|(category, word)| match (category, word) {
        (
            "quotaError",
            "RESOURCE_EXHAUSTED"
            | "RESOURCE_TEMPORARILY_EXHAUSTED"
            | "EXCESSIVE_SHORT_TERM_QUERY_RESOURCE_CONSUMPTION"
            | "EXCESSIVE_LONG_TERM_QUERY_RESOURCE_CONSUMPTION",
        ) => Kind::RateLimited,
        ("internalError", "INTERNAL_ERROR" | "TRANSIENT_ERROR" | "DEADLINE_EXCEEDED")
        | ("databaseError", "CONCURRENT_MODIFICATION")
        | ("requestError", "RPC_DEADLINE_TOO_SHORT" | "EXPIRED_PAGE_TOKEN") => Kind::Retryable,
        ("authenticationError", "OAUTH_TOKEN_EXPIRED" | "OAUTH_TOKEN_INVALID") => Kind::StaleToken,
        ("authenticationError" | "authorizationError" | "headerError" | "queryError" | "dateRangeError", _)
        | ("quotaError", "ACCESS_PROHIBITED")
        | ("requestError", "UNSUPPORTED_VERSION")
        | ("changeEventError", "START_DATE_TOO_OLD")
        | ("clickViewError", "DATE_TOO_OLD") => Kind::Final,
        _ => Kind::Retryable,
    });
    kinds.max().unwrap_or(Kind::Retryable)
}

/// An error without codes of its own.
fn by_status(status: u16) -> Kind {
    match status {
        401 => Kind::StaleToken,
        429 => Kind::RateLimited,
        _ => Kind::Retryable,
    }
}

fn describe(error: &OneError<'_>) -> String {
    let codes: Vec<String> =
        error.codes().map(|(category, word)| format!("{category}.{}", word.as_str().unwrap_or_default())).collect();
    match (codes.join(" "), error.message) {
        (codes, "") => codes,
        (codes, message) if codes.is_empty() => message.to_owned(),
        (codes, message) => format!("{codes}: {message}"),
    }
}

fn status_and_message(report: &Report<'_>) -> String {
    match (report.status, report.message) {
        ("", message) => message.to_owned(),
        (status, "") => status.to_owned(),
        (status, message) => format!("{status}: {message}"),
    }
}

/// A span as the API writes it, `"40591s"` or `"1.5s"`. Hours are normal, and obeyed.
fn delay(text: &str) -> Option<Duration> {
    span(text.strip_suffix('s')?.parse().ok()?)
}

#[cfg(test)]
mod tests;
