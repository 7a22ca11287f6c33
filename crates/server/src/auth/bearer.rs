//! Tokens in the Authorization header.

use axum::http::{HeaderMap, header};
use redrive_core::sign_in::{TokenState, use_to_keep};
use redrive_store::Token;
use subtle::ConstantTimeEq as _;

use super::secret::Secret;
use crate::app::App;
use crate::error::{Error, Result};
use crate::web::{Caller, Code};

/// The caller that a token in the headers stands for; none where there is no such header.
pub async fn caller(app: &App, headers: &HeaderMap) -> Result<Option<Caller>> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return Err(refused("send one Authorization header")),
    };
    let (scheme, text) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(refused("the Authorization header must be `Bearer` and a token"));
    }
    let token = find(app, text.trim()).await?;
    Ok(Some(Caller::of_token(&token)))
}

/// The token with this text, if it counts now.
pub async fn find(app: &App, text: &str) -> Result<Token> {
    let unknown = || refused("the token is unknown; `redrive token list` shows those that are known");
    let secret = Secret::read_token(text).ok_or_else(unknown)?;
    let hash = secret.hash();
    let token = app.access().token(hash).await?.ok_or_else(unknown)?;
    // The index has found it already; this says so in constant time.
    if !bool::from(token.hash.bytes().ct_eq(hash.bytes())) {
        return Err(unknown());
    }
    let now = app.access().now();
    match token.state(now) {
        TokenState::Valid => {}
        TokenState::Expired => {
            return Err(refused(&format!(
                "the token {:?} expired at {}; make a new one",
                token.name, token.expires_at
            )));
        }
        TokenState::Revoked => return Err(refused(&format!("the token {:?} was revoked", token.name))),
    }
    if let Some(at) = use_to_keep(token.last_used_at, now) {
        app.keep_use_of_token(token.id, at);
    }
    Ok(token)
}

fn refused(detail: &str) -> Error {
    Error::of_code(Code::NotSignedIn, detail)
}
