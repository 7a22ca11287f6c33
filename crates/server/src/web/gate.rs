//! The way into every route: only roles that the table admits come through, and a server that only reads changes nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::caller::Access;
use super::code::Code;
use super::params::{Param, Params};
use crate::app::App;
use crate::auth;
use crate::error::{Error, Result};

/// What the table of routes says about one route, as far as its gate is concerned.
#[derive(Debug, Clone)]
pub struct Gate {
    pub access: Access,
    pub changes: bool,
    pub query: &'static [&'static [Param]],
}

pub async fn gate(State((app, gate)): State<(App, Arc<Gate>)>, request: Request, next: Next) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let caller = auth::identify(&app, &parts).await?;
    if gate.access != Access::Anyone {
        let Some(caller) = &caller else {
            let detail = "nobody is signed in; send a token as `Authorization: Bearer …`";
            return Err(Error::of_code(Code::NotSignedIn, detail));
        };
        if !gate.access.admits(caller.role) {
            let (needed, has) = (gate.access.as_str(), caller.role);
            return Err(Error::of_code(
                Code::Forbidden,
                format!("this needs the role {needed}, and the caller is {has}"),
            ));
        }
    }
    if gate.changes && app.settings().read_only {
        return Err(Error::of_code(Code::ReadOnly, "this server only reads; send changes to another one"));
    }
    Params::parse(parts.uri.query()).check(gate.query.iter().copied().flatten())?;
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}
