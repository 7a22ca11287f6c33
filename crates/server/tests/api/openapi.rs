//! The description of the API has every route, and leads nowhere else.

use std::collections::BTreeSet;

use redrive_fixture::TestDatabase;
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
