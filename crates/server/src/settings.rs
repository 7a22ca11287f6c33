//! What the configuration says about the server, resolved.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::auth::ForwardAuth;

/// `[server]`, with what flags say in its place.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where people reach the server, when that is not where it listens.
    pub public_url: Option<Url>,
    pub base_path: BasePath,
    /// Names of this server beside those that always lead to it.
    pub allowed_hosts: Vec<String>,
    /// Refuses every request that would change something.
    pub read_only: bool,
    /// What people call this installation.
    pub instance: Option<String>,
    /// The most bytes of an upload.
    pub max_upload: u64,
    /// Which proxies say who calls.
    pub forward_auth: Option<ForwardAuth>,
}

/// The path that all paths of the server begin with: nothing, or `/name` without a slash at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be a base path; write it like /redrive, in letters, digits, `-`, `_`, `.` and `/`")]
pub struct NoBasePath(String);

impl BasePath {
    /// Where a path of the server is found. Every URL that the server gives away or listens to goes through here.
    pub fn to(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl FromStr for BasePath {
    type Err = NoBasePath;

    fn from_str(text: &str) -> Result<Self, NoBasePath> {
        let trimmed = text.trim_matches('/');
        if trimmed.is_empty() {
            return Ok(Self::default());
        }
        let is_plain = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match trimmed.split('/').all(is_plain) {
            true => Ok(Self(format!("/{trimmed}"))),
            false => Err(NoBasePath(text.to_owned())),
        }
    }
}

impl fmt::Display for BasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_base_path_leads_to_the_same_urls() {
        for text in ["/redrive", "redrive", "/redrive/", "//redrive//"] {
            let base: BasePath = text.parse().unwrap();
            assert_eq!(base.to("/v1/status"), "/redrive/v1/status", "{text}");
        }
        let none: BasePath = "/".parse().unwrap();
        assert_eq!(none.to("/v1/status"), "/v1/status");
        for wrong in ["/a b", "/{id}", "/a//b", "/..", "/a?b"] {
            assert!(wrong.parse::<BasePath>().is_err(), "{wrong}");
        }
    }
}
