//! Every answer of the API that any test gets is one that the description promises: its status, its media type, and its shape. Pages
//! are for people.

use serde_json::{Value, json};

use crate::client::{Call, Reply};

/// What the description says of a path, be it one with placeholders.
fn item<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let asked: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        parts.len() == asked.len()
            && parts.iter().zip(&asked).all(|(part, asked)| part.starts_with('{') || part == asked)
    };
    let paths = document["paths"].as_object()?;
    // A path without placeholders comes first, as it does in the router.
    let mut found: Vec<&String> = paths.keys().filter(|template| fits(template)).collect();
    found.sort_by_key(|template| template.matches('{').count());
    found.first().map(|template| &paths[*template])
}

/// Asserts that an answer is as it is described.
#[track_caller]
pub fn check(document: &Value, call: &Call, reply: &Reply) {
    let path = call.path.split('?').next().unwrap_or_default();
    if !path.contains("/v1/") {
        return;
    }
    let operation = item(document, path).map(|item| &item[call.method.to_ascii_lowercase()]);
    let Some(operation) = operation.filter(|operation| operation.is_object()) else { return };
    let shown = format!("{} {}: {} {}", call.method, call.path, reply.status, String::from_utf8_lossy(&reply.body));
    let response = &operation["responses"][reply.status.to_string()];
    assert!(response.is_object(), "the status is not described: {shown}");
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let is_there = reply.header(&name.to_ascii_lowercase()).is_some();
        assert!(is_there || header["required"] != true, "the header {name} is described and not there: {shown}");
    }
    let Some(content) = response["content"].as_object() else {
        assert!(reply.body.is_empty(), "a body is not described: {shown}");
        return;
    };
    let kind = reply.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let described = content.get(kind).unwrap_or_else(|| panic!("the media type {kind} is not described: {shown}"));
    if kind.ends_with("json") {
        let schema = json!({"components": document["components"], "allOf": [described["schema"]]});
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let value = reply.json();
        let faults: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(faults.is_empty(), "{faults:#?} in {shown}");
    }
}
