//! Which problems a route may answer with: those of its kind, and its own.

use std::collections::BTreeMap;

use axum::http::Method;
use redrive_core::refusal::Reason;
use serde_json::{Map, Value, json};

use super::answer::Gives;
use crate::routes::{Access, Route};
use crate::web::Code;

/// The answers with a problem, by their statuses.
pub fn answers(route: &Route) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes(route) {
        let same = by_status.entry(code.status()).or_default();
        if !same.contains(&code) {
            same.push(code);
        }
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), answer(&codes))).collect()
}

fn answer(codes: &[Code]) -> Value {
    let told: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}.", code.title())).collect();
    json!({
        "description": told.join(" "),
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    })
}

fn codes(route: &Route) -> Vec<Code> {
    // Every request has a Host, may carry a token, and needs the server and its database.
    let mut codes =
        vec![Code::BadRequest, Code::NotSignedIn, Code::ForeignHost, Code::Internal, Code::StoreUnavailable];
    if route.access != Access::Anyone {
        codes.push(Code::Forbidden);
    }
    if route.path.contains('{') {
        codes.push(Code::NotFound);
    }
    if route.answers.iter().any(|answer| matches!(answer.gives, Gives::List(_))) {
        codes.extend([Code::BadCursor, Code::NotAcceptable]);
    }
    if !route.takes.is_nothing() {
        codes.extend([Code::Timeout, Code::TooLarge, Code::UnsupportedMediaType, Code::BadBody]);
    }
    if route.method != Method::GET {
        codes.push(Code::CrossSite);
    }
    if route.changes {
        codes.push(Code::ReadOnly);
    }
    if route.is_keyed() {
        codes.extend([Code::InProgress, Code::Interrupted, Code::IdempotencyKeyReused]);
        // The body is read whole to be compared, whether or not the route wants one.
        codes.extend([Code::Timeout, Code::TooLarge]);
    }
    if route.if_match {
        codes.push(Code::Refused(Reason::ChangedSincePlan));
    }
    codes.extend(route.refuses);
    codes
}
