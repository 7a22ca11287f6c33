//! What each code of a problem means: where `type` of a problem leads.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{Code, PathText};

pub fn routes() -> Vec<Route> {
    vec![Route::get("/problems/{code}", Access::Anyone, "What a problem's code means", problem).gives(Gives::Html)]
}

async fn problem(PathText(word): PathText<String>) -> Result<Response> {
    let known = || Code::all().map(Code::as_str).collect::<Vec<_>>().join(", ");
    let code = Code::find(&word)
        .ok_or_else(|| Error::not_found(format!("no problem is called {word:?}; known: {}", known())))?;
    // Nothing of these texts comes from outside.
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{code}</title></head>\n<body>\n\
         <h1>{code}</h1>\n<p>{} (HTTP {})</p>\n<p>{}</p>\n</body>\n</html>\n",
        code.title(),
        code.status(),
        code.explained(),
    );
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], page).into_response())
}
