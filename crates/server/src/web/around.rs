//! What surrounds every request: its id and its line in the log, the check of its Host, the headers of every answer.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::Instrument as _;
use uuid::Uuid;

use super::code::Code;
use super::host::Hosts;
use super::problem;
use crate::app::App;
use crate::error::Error;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 64;

/// What every answer has. Nothing inline, nothing from elsewhere, no frame around it.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

pub async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let (method, begun) = (request.method().clone(), Instant::now());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let span = tracing::info_span!("request", request_id = %id, %method, route);
    let answering = async {
        let response = match admitted(&app, request.headers()) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        };
        let status = response.status().as_u16();
        let ms = begun.elapsed().as_millis();
        tracing::debug!(%method, route, status, ms, "answered");
        app.metrics().requests.count(&route, &method, status, begun.elapsed());
        response
    };
    let response = answering.instrument(span).await;
    let mut response = problem::write(response, |code| app.url(&format!("/problems/{code}")), &id);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID.clone(), id);
    }
    response
}

/// The id that a caller gave, where it fits into a line of a log; otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let fits = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok()).filter(fits);
    given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

fn admitted(app: &App, headers: &HeaderMap) -> Result<(), Error> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        (None, _) | (Some(_), Some(_)) => return Err(Error::bad_request("send exactly one Host header")),
    };
    let known = Hosts { settings: app.settings(), is_local: app.is_local() };
    match known.admit(host) {
        true => Ok(()),
        false => {
            let todo = "call the server by its own name, or add this one to allowed_hosts in [server]";
            Err(Error::of_code(Code::ForeignHost, format!("{host:?} is no name of this server; {todo}")))
        }
    }
}
