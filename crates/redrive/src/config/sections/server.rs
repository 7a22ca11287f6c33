//! `[server]`.

use std::collections::BTreeMap;

use redrive_core::role::Role;
use serde::Deserialize;

/// `[server]`: where `redrive serve` listens, and by which names it is called.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSection {
    pub listen: String,
    /// Where people reach it, when that is not where it listens.
    pub public_url: Option<String>,
    /// The path that all of its paths begin with.
    pub base_path: String,
    /// Names of this server beside those that always lead to it.
    pub allowed_hosts: Vec<String>,
    /// Refuses every request that would change something.
    pub read_only: bool,
    /// What people call this installation.
    pub instance: Option<String>,
    /// The most bytes of an upload by HTTP, where that is less than `max_upload` of `[ingest]`.
    pub max_upload: Option<u64>,
    pub forward_auth: Option<ForwardAuthSection>,
}

/// `[server.forward_auth]`: a proxy that says who calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuthSection {
    /// Addresses and networks whose connections are believed.
    pub trusted_proxies: Vec<String>,
    pub user_header: String,
    pub groups_header: Option<String>,
    /// The roles of groups; `*` is everybody.
    pub roles: BTreeMap<String, Role>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7117".to_owned(),
            public_url: None,
            base_path: "/".to_owned(),
            allowed_hosts: vec![],
            read_only: false,
            instance: None,
            max_upload: None,
            forward_auth: None,
        }
    }
}
