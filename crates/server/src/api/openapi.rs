//! The description of the API, made from the table of routes: OpenAPI 3.1 for programs, a page for people. Both are rendered
//! here, and need nothing from elsewhere.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::error::Result;
use crate::routes::{Access, Gives, Route, table};
use crate::web::{Code, Param, ParamKind, json as answer};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/openapi.json", Access::Viewer, "This description, as OpenAPI 3.1", document),
        Route::get("/docs", Access::Viewer, "This description, as a page", page).gives(Gives::Html),
    ]
}

async fn document(State(app): State<App>) -> Result<Response> {
    answer(&describe(&app))
}

/// The whole description.
pub fn describe(app: &App) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let item = paths.entry(app.url(route.path)).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = operation(&route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the command line can do, for other programs. Errors are problems of RFC 9457.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": problem()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "redrive token create"},
                "session": {"type": "apiKey", "in": "cookie", "name": "redrive", "description": "POST /login"},
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let names = placeholders(route.path);
    let in_path = names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": placeholder(name)}));
    let in_query = route.query.iter().copied().flatten().map(parameter);
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.what,
        "description": format!("Least role: {}.", route.access.as_str()),
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {
            route.status.to_string(): success(route),
            "default": {
                "description": "A problem",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
        "security": match route.access {
            Access::Anyone => json!([]),
            Access::Viewer | Access::Operator | Access::Admin | Access::Worker => {
                json!([{"token": []}, {"session": []}])
            }
        },
    });
    if let Some(takes) = route.takes {
        operation["requestBody"] = json!({"required": true, "content": takes()});
    }
    operation
}

fn success(route: &Route) -> Value {
    let object = json!({"schema": {"type": "object"}});
    let text = json!({"schema": {"type": "string"}});
    let content = match route.gives {
        Gives::Json => json!({"application/json": object}),
        Gives::List => json!({"application/json": object, "application/jsonl": text}),
        Gives::Lines => json!({"application/jsonl": text}),
        Gives::Html => json!({"text/html": text}),
        Gives::Script => json!({"text/javascript": text}),
        Gives::Text => json!({"text/plain": text}),
        Gives::Events => json!({"text/event-stream": text}),
        Gives::Nothing => return json!({"description": route.what}),
    };
    json!({"description": route.what, "content": content})
}

fn parameter(param: &Param) -> Value {
    let schema = match param.kind {
        ParamKind::Text | ParamKind::Date | ParamKind::Time => json!({"type": "string"}),
        ParamKind::Number { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
        ParamKind::Flag => json!({"type": "boolean"}),
        ParamKind::Word(words) => json!({"type": "string", "enum": words}),
        ParamKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
    };
    json!({"name": param.name, "in": "query", "description": param.what, "schema": schema})
}

fn placeholder(name: &str) -> Value {
    match name {
        "id" | "op" | "other" => json!({"type": "string", "format": "uuid"}),
        "logical_date" => json!({"type": "string", "format": "date"}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A name for the operation that programs made from the description call it by.
fn operation_id(route: &Route) -> String {
    let path: String = route.path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let words: Vec<&str> = path.split('_').filter(|word| !word.is_empty()).collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn problem() -> Value {
    let codes: Vec<&str> = Code::all().map(Code::as_str).collect();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "request_id"],
        "properties": {
            "type": {"type": "string", "description": "The page that explains the code"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "What is wrong, and what to do"},
            "code": {"type": "string", "enum": codes},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
                },
            },
            "matched": {"type": "integer"},
            "request_id": {"type": "string"},
        },
    })
}

async fn page(State(app): State<App>) -> Response {
    let mut rows = String::new();
    for route in table() {
        let params = route.query.iter().copied().flatten();
        let params: String = params.fold(String::new(), |mut text, param| {
            let _ = write!(text, "<dt><code>{}</code></dt><dd>{}</dd>", param.name, escape(param.what));
            text
        });
        let _ = write!(
            rows,
            "<section>\n<h2><code>{} {}</code></h2>\n<p>{}. Least role: {}.</p>\n<dl>{params}</dl>\n</section>\n",
            route.method,
            escape(&app.url(route.path)),
            escape(route.what),
            route.access.as_str(),
        );
    }
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>API · Redrive</title>\n</head>\n<body>\n<main>\n\
         <h1>Redrive’s API</h1>\n<p>For programs: <a href=\"{}\">openapi.json</a>.</p>\n{rows}</main>\n</body>\n</html>\n",
        app.url("/openapi.json"),
    );
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], text).into_response()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
