//! Browsers that are signed in, by their cookie.

use axum::http::{HeaderMap, HeaderValue, header};
use redrive_core::role::Role;
use redrive_core::sign_in::{SESSION_MOST, use_to_keep};
use redrive_store::Session;
use redrive_store::raw::Sha256;

use super::secret::Secret;
use crate::app::App;
use crate::error::{Error, Result};
use crate::web::Caller;

/// The cookie's name over https. Browsers take it only with Secure, for this host alone, and from no subdomain.
const SECURE: &str = "__Host-redrive";
const PLAIN: &str = "redrive";

/// The caller that the cookie stands for; none where there is no cookie, or one that has ended.
pub async fn caller(app: &App, headers: &HeaderMap) -> Result<Option<Caller>> {
    let Some(hash) = hash_of(app, headers) else { return Ok(None) };
    let Some(session) = app.access().session(hash).await? else { return Ok(None) };
    if let Some(at) = use_to_keep(Some(session.last_seen), app.access().now()) {
        app.keep_use_of_session(hash, at);
    }
    Ok(Some(Caller { actor: session.actor, role: session.role, categories: None }))
}

/// The hash of the session that a request's cookie names.
pub fn hash_of(app: &App, headers: &HeaderMap) -> Option<Sha256> {
    let name = cookie_name(app);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut named = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = named.find(|(key, _)| *key == name)?;
    Some(Secret::read(value)?.hash())
}

/// Begins a session in place of the one that the request has; gives the cookie.
pub async fn begin(
    app: &App,
    headers: &HeaderMap,
    caller: &Caller,
    token: Option<redrive_core::id::TokenId>,
) -> Result<HeaderValue> {
    let secret = Secret::random()?;
    let now = app.access().now();
    let session = Session {
        hash: secret.hash(),
        actor: caller.actor.clone(),
        role: caller.role,
        token,
        created_at: now,
        last_seen: now,
    };
    app.access().begin_session(session, hash_of(app, headers)).await?;
    cookie(app, secret.reveal(), SESSION_MOST.as_secs())
}

/// Takes the cookie away.
pub fn forgotten(app: &App) -> Result<HeaderValue> {
    cookie(app, "", 0)
}

fn cookie_name(app: &App) -> &'static str {
    if app.is_https() { SECURE } else { PLAIN }
}

fn cookie(app: &App, value: &str, max_age: u64) -> Result<HeaderValue> {
    let secure = if app.is_https() { "; Secure" } else { "" };
    let name = cookie_name(app);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}");
    HeaderValue::from_str(&text).map_err(|error| Error::Internal(error.to_string()))
}

/// Who follows the link that a server printed when it was first started.
pub fn first_admin() -> Caller {
    Caller { actor: "first sign-in".to_owned(), role: Role::Admin, categories: None }
}
