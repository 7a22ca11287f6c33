//! The description of the API: OpenAPI 3.1 for programs, a page for people. Both are made from the table of routes, and need nothing
//! from elsewhere.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::description::{Gives, describe};
use crate::error::Result;
use crate::routes::{Access, Route, table};
use crate::web::json;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/openapi.json", Access::Viewer, "This description, as OpenAPI 3.1", document)
            .json::<serde_json::Map<String, serde_json::Value>>(),
        Route::get("/docs", Access::Viewer, "This description, as a page", page).gives(Gives::Html),
    ]
}

async fn document(State(app): State<App>) -> Result<Response> {
    json(&describe(&app))
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
