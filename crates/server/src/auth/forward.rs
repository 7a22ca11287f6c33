//! Callers whom a proxy has identified. It is believed by where its connection comes from, and by nothing that a request says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use redrive_core::role::Role;

use super::network::Network;
use crate::error::{Error, Result};
use crate::web::{Caller, Code, Peer};

/// `[server.forward_auth]`: which proxies say who calls, and how.
#[derive(Debug, Clone)]
pub struct ForwardAuth {
    pub trusted_proxies: Vec<Network>,
    pub user_header: HeaderName,
    pub groups_header: Option<HeaderName>,
    /// The roles of groups; `*` is everybody.
    pub roles: BTreeMap<String, Role>,
}

/// What stands for everybody.
const EVERYBODY: &str = "*";

impl ForwardAuth {
    /// The caller whom a trusted proxy names. The header of anybody else is refused, so that a proxy that is not configured
    /// shows at once.
    pub fn caller(&self, request: &Parts) -> Result<Option<Caller>> {
        let headers = &request.headers;
        let names_groups = self.groups_header.as_ref().is_some_and(|name| headers.contains_key(name));
        if !headers.contains_key(&self.user_header) && !names_groups {
            return Ok(None);
        }
        let peer = request.extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical());
        if !peer.is_some_and(|peer| self.trusts(peer)) {
            let header = &self.user_header;
            let detail =
                format!("the header {header} is believed only from trusted_proxies; this connection is from none");
            return Err(Error::of_code(Code::Forbidden, detail));
        }
        let user = one(headers, &self.user_header)?;
        let role = self.role(headers)?;
        Ok(Some(Caller { actor: format!("user:{user}"), role, categories: None }))
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(peer))
    }

    /// The strongest role of the caller's groups.
    fn role(&self, headers: &HeaderMap) -> Result<Role> {
        let groups = match &self.groups_header {
            Some(name) if headers.contains_key(name) => one(headers, name)?,
            Some(_) | None => "",
        };
        let named = groups.split([',', ';', ' ']).map(str::trim).chain([EVERYBODY]);
        let roles = named.filter_map(|group| self.roles.get(group)).copied();
        roles.max_by_key(|role| strength(*role)).ok_or_else(|| {
            Error::of_code(Code::Forbidden, "none of the caller's groups has a role in server.forward_auth.roles")
        })
    }
}

fn strength(role: Role) -> u8 {
    match role {
        Role::Worker => 0,
        Role::Viewer => 1,
        Role::Operator => 2,
        Role::Admin => 3,
    }
}

/// The only value of a header.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default().trim(),
        (None, _) | (Some(_), Some(_)) => "",
    };
    match value.is_empty() {
        true => Err(Error::of_code(Code::Forbidden, format!("the header {name} must be given once and say who calls"))),
        false => Ok(value),
    }
}
