//! The whole document: paths, and the types that they share.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Link};
use super::{parameters, problems};
use crate::api::change::VERBS;
use crate::app::App;
use crate::routes::{Access, Route, table};
use crate::web::{LONGEST_KEY, Problem};

/// Where types that are shared lie in the document.
const TYPES: &str = "/components/schemas";

/// The whole description.
pub fn describe(app: &App) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = TYPES.into();
        settings.meta_schema = None;
    });
    let mut types = settings.into_generator();
    types.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let item = paths.entry(app.url(route.path)).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = operation(&route, &mut types);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the command line can do, for other programs. Errors are problems of RFC 9457.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": types.take_definitions(true),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "redrive token create"},
                "session": {"type": "apiKey", "in": "cookie", "name": "redrive", "description": "POST /login"},
            },
        },
    })
}

fn operation(route: &Route, types: &mut SchemaGenerator) -> Value {
    let mut responses = problems::answers(route);
    for answer in &route.answers {
        let described = success(answer, route, types);
        match responses.get_mut(&answer.status.to_string()).and_then(|problem| problem["content"].as_object_mut()) {
            // A page in place of the problem, for browsers.
            Some(content) => content.extend(described["content"].as_object().cloned().unwrap_or_default()),
            None => drop(responses.insert(answer.status.to_string(), described)),
        }
    }
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.what,
        "description": format!("Least role: {}.", route.access.as_str()),
        "parameters": parameters(route),
        "responses": responses,
        "security": match route.access {
            Access::Anyone => json!([]),
            Access::Viewer | Access::Operator | Access::Admin | Access::Worker => {
                json!([{"token": []}, {"session": []}])
            }
        },
    });
    if let Some(content) = route.takes.content() {
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": placeholder(name)}));
    let in_query = route.query.iter().copied().flatten().map(parameters::in_query);
    let mut all: Vec<Value> = in_path.chain(in_query).collect();
    if route.is_keyed() {
        let what = "The same key and body again give the same answer, and change nothing more; kept for 24 hours";
        let schema = json!({"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"});
        all.push(json!({"name": "Idempotency-Key", "in": "header", "description": what, "schema": schema}));
    }
    if route.if_match {
        let what = "The ETag of what the change was decided on; where that is another one by now, nothing is changed";
        let schema = json!({"type": "string", "pattern": r#"^(\*|"v[0-9]{1,9}")$"#});
        all.push(json!({"name": "If-Match", "in": "header", "description": what, "schema": schema}));
    }
    all
}

fn placeholder(name: &str) -> Value {
    match name {
        "id" | "op" | "other" => json!({"type": "string", "format": "uuid"}),
        "verb" => json!({"type": "string", "enum": VERBS}),
        "logical_date" => parameters::day(),
        "source" | "customer_id" | "query_name" => parameters::key(),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

fn success(answer: &Answer, route: &Route, types: &mut SchemaGenerator) -> Value {
    let mut described = json!({"description": answer.what});
    if let Some(content) = answer.gives.content(types) {
        described["content"] = content;
    }
    for (name, what) in answer.headers {
        described["headers"][name] = json!({"description": what, "required": true, "schema": {"type": "string"}});
    }
    if route.is_keyed() {
        let what = "`true` where the answer is that of an earlier request with the same Idempotency-Key";
        described["headers"]["Idempotency-Replayed"] =
            json!({"description": what, "schema": {"type": "string", "enum": ["true"]}});
    }
    for Link { name, operation, parameter, from } in route.links {
        described["links"][name] = json!({"operationId": operation, "parameters": {*parameter: from}});
    }
    described
}

/// A name for the operation that programs made from the description call it by.
fn operation_id(route: &Route) -> String {
    let path: String = route.path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let words: Vec<&str> = path.split('_').filter(|word| !word.is_empty()).collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}
