//! Signing in and out with a browser: a token for a session.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use url::form_urlencoded;

use crate::app::App;
use crate::auth::{self, session};
use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{Caller, Code, Peer, media_type, parse_json, read_body};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/login", Access::Anyone, "The page to sign in on", page).gives(Gives::Html),
        Route::get("/login.js", Access::Anyone, "What the page does with a link for the first sign-in", script)
            .gives(Gives::Script),
        Route::post("/login", Access::Anyone, "Sign in with a token", login)
            .leaves_data_alone()
            .status(303)
            .gives(Gives::Nothing)
            .takes_bodies(credentials_schema)
            .or_nothing("A program has signed in, and has its cookie")
            .or_page(401, "The page again, with what went wrong")
            .refuses(&[Code::TooManyRequests]),
        Route::post("/logout", Access::Anyone, "Sign out", logout)
            .leaves_data_alone()
            .status(303)
            .gives(Gives::Nothing),
        Route::post("/logout/everywhere", Access::Viewer, "Sign out in every browser", logout_everywhere)
            .leaves_data_alone()
            .status(303)
            .gives(Gives::Nothing),
    ]
}

fn credentials_schema() -> serde_json::Value {
    let properties = serde_json::json!({"token": {"type": "string"}, "code": {"type": "string"}});
    let schema = serde_json::json!({"type": "object", "properties": properties, "additionalProperties": false});
    serde_json::json!({"application/x-www-form-urlencoded": {"schema": schema}, "application/json": {"schema": schema}})
}

/// The most bytes of a form.
const MOST: usize = 4096;

const SCRIPT: &str = r#"// A link for the first sign-in carries its secret in its fragment, which no server sees.
const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = secret;
  document.getElementById("sign-in").submit();
}
"#;

async fn page(State(app): State<App>) -> Response {
    html(&app, StatusCode::OK, "")
}

/// The page, with what went wrong.
fn html(app: &App, status: StatusCode, fault: &str) -> Response {
    let (action, script) = (app.url("/login"), app.url("/login.js"));
    let fault = match fault {
        "" => String::new(),
        fault => format!("<p role=\"alert\">{}</p>\n", escape(fault)),
    };
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Sign in · Redrive</title>\n\
         <script src=\"{script}\" defer></script>\n</head>\n<body>\n<main>\n<h1>Sign in</h1>\n{fault}\
         <form id=\"sign-in\" method=\"post\" action=\"{action}\">\n\
         <p><label>Token <input name=\"token\" type=\"password\" autocomplete=\"off\" autofocus></label></p>\n\
         <input id=\"code\" name=\"code\" type=\"hidden\">\n<p><button>Sign in</button></p>\n</form>\n\
         <p>An administrator makes tokens by <code>redrive token create</code>.</p>\n</main>\n</body>\n</html>\n"
    );
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], page).into_response()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"))], SCRIPT).into_response()
}

/// What a caller signs in with.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Credentials {
    token: String,
    code: String,
}

async fn credentials(headers: &HeaderMap, body: Body) -> Result<(Credentials, bool)> {
    let bytes = read_body(body, MOST).await?;
    match media_type(headers).as_deref() {
        Some("application/json") => Ok((parse_json(&bytes)?, false)),
        Some("application/x-www-form-urlencoded") => {
            let mut given = Credentials::default();
            for (name, value) in form_urlencoded::parse(&bytes) {
                match &*name {
                    "token" => given.token = value.into_owned(),
                    "code" => given.code = value.into_owned(),
                    other => return Err(Error::bad_request(format!("the field {other:?} is unknown"))),
                }
            }
            Ok((given, true))
        }
        Some(_) | None => Err(Error::of_code(Code::UnsupportedMediaType, "send a form, or application/json")),
    }
}

async fn login(State(app): State<App>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
    let peer = peer.ok_or_else(|| Error::Internal("a connection without an address".to_owned()))?;
    let now = app.access().now();
    if let Err(wait) = app.attempts().check(peer, now) {
        return Ok(too_many(wait.as_secs()));
    }
    let (given, is_form) = credentials(&parts.headers, body).await?;
    let signed_in = sign_in(&app, &parts.headers, &given).await;
    match signed_in {
        Ok(cookie) => Ok(welcome(&app, cookie, is_form)),
        Err(error) if error.code() == Code::NotSignedIn => {
            app.attempts().failed(peer, now);
            tracing::warn!(%peer, "somebody failed to sign in");
            if is_form { Ok(html(&app, StatusCode::UNAUTHORIZED, &error.to_string())) } else { Err(error) }
        }
        Err(error) => Err(error),
    }
}

async fn sign_in(app: &App, headers: &HeaderMap, given: &Credentials) -> Result<HeaderValue> {
    if !given.code.is_empty() {
        if !app.first_link().take(&given.code, app.access().now()) {
            return Err(Error::of_code(
                Code::NotSignedIn,
                "this link has been used, or is too old; sign in with a token",
            ));
        }
        return session::begin(app, headers, &session::first_admin(), None).await;
    }
    let token = auth::find_token(app, given.token.trim()).await?;
    session::begin(app, headers, &Caller::of_token(&token), Some(token.id)).await
}

fn welcome(app: &App, cookie: HeaderValue, is_form: bool) -> Response {
    let mut response = match is_form {
        true => {
            let home = HeaderValue::from_str(&app.url("/")).unwrap_or(HeaderValue::from_static("/"));
            (StatusCode::SEE_OTHER, [(header::LOCATION, home)]).into_response()
        }
        false => StatusCode::NO_CONTENT.into_response(),
    };
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}

fn too_many(seconds: u64) -> Response {
    let error = Error::of_code(Code::TooManyRequests, format!("too many failed attempts; wait {seconds} s"));
    let mut response = error.into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

async fn logout(State(app): State<App>, headers: HeaderMap) -> Result<Response> {
    if let Some(hash) = session::hash_of(&app, &headers) {
        app.access().end_session(hash).await?;
    }
    signed_out(&app)
}

async fn logout_everywhere(State(app): State<App>, Extension(caller): Extension<Caller>) -> Result<Response> {
    app.access().end_sessions_of(&caller.actor).await?;
    signed_out(&app)
}

fn signed_out(app: &App) -> Result<Response> {
    let login = HeaderValue::from_str(&app.url("/login")).unwrap_or(HeaderValue::from_static("/"));
    let headers = [(header::LOCATION, login), (header::SET_COOKIE, session::forgotten(app)?)];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}
