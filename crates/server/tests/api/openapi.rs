//! The description of the API has every route, and leads nowhere else.

use std::collections::BTreeSet;
use std::process::Command;

use redrive_fixture::{TestDatabase, tool};
use redrive_server::routes;
use serde_json::Value;

use crate::client::get;
use crate::served::Served;

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn every_route_is_described() {
    let served = Served::with(TestDatabase::sqlite(), |settings| settings.base_path = "/x".parse().unwrap()).await;
    let document = served.send(get("/openapi.json")).await.done(200);
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for route in routes::table() {
        let operation = &document["paths"][format!("/x{}", route.path)][route.method.as_str().to_ascii_lowercase()];
        assert_eq!(operation["summary"], route.what, "{} {}", route.method, route.path);
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
        let parameters = operation["parameters"].as_array().unwrap();
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(in_path, route.path.matches('{').count(), "{}", route.path);
        assert_eq!(operation["security"] == serde_json::json!([]), route.access == routes::Access::Anyone);
    }
    let described: usize =
        document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(described, routes::table().len(), "and nothing else is");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    assert!(!document.to_string().contains("nullable"));
}

/// The document is one of OpenAPI 3.1, by the validator of those who wrote that.
#[tokio::test]
async fn the_description_is_valid() {
    let Some(program) = tool("openapi-spec-validator/bin/openapi-spec-validator") else { return };
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let document = served.send(get("/openapi.json")).await.done(200);
    let file = served.store.database.path().join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let output =
        Command::new(program).args(["--schema", "3.1", "--validation-errors", "all"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("OK"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Every answer with a body says what is in it, and every problem is described.
#[tokio::test]
async fn every_answer_says_what_is_in_it() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let document = redrive_server::describe(&served.app);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let shown = format!("{method} {path} {status}");
                assert!(!response["description"].as_str().unwrap().is_empty(), "{shown}");
                let schema = &response["content"]["application/json"]["schema"];
                let says =
                    ["$ref", "properties", "anyOf", "additionalProperties"].iter().any(|key| !schema[key].is_null());
                assert!(schema.is_null() || says, "{shown}: {schema}");
                let is_problem = status.starts_with(['4', '5']);
                let problem = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(is_problem, problem == "#/components/schemas/Problem", "{shown}");
            }
        }
    }
    let claim = &document["paths"]["/v1/worker/claim"]["post"]["responses"];
    assert!(claim["204"]["content"].is_null() && claim["503"].is_object(), "{claim}");
    let state = &document["paths"]["/v1/state/{verb}"]["post"]["responses"]["202"];
    assert_eq!(state["headers"]["Location"]["required"], true, "{state}");
}

#[tokio::test]
async fn the_page_names_every_route_and_needs_nothing_else() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let page = served.send(get("/docs")).await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    for route in routes::table() {
        assert!(page.text().contains(&format!("<code>{} {}</code>", route.method, route.path)), "{}", route.path);
    }
    for foreign in ["<script", "<style", "style=", "http://", "https://", "<img"] {
        assert!(!page.text().contains(foreign), "{foreign}");
    }
}
