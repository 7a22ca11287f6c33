//! Which Host headers are this server's. A page of another site can make a browser resolve its own name to this address (DNS
//! rebinding); such a request has the other site's name, and is refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::settings::Settings;

/// The names by which a server may be called.
#[derive(Debug)]
pub struct Hosts<'a> {
    pub settings: &'a Settings,
    /// Whether only this machine can reach the server.
    pub is_local: bool,
}

impl Hosts<'_> {
    /// Whether a request with this Host header was meant for this server.
    pub fn admit(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        is_loopback_name(name) || self.is_configured(name) || (!self.is_local && is_address(name))
    }

    fn is_configured(&self, name: &str) -> bool {
        let public = self.settings.public_url.as_ref().and_then(|url| url.host_str());
        let listed = self.settings.allowed_hosts.iter().map(String::as_str);
        public.into_iter().chain(listed).any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// A host header without its port.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')? + 2;
            (&host[..end], &host[end..])
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (is_port && !name.is_empty()).then_some(name)
}

/// Whether a name, without its port, always means the machine itself.
pub fn is_loopback_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || v6(&name).is_some_and(|address| address.is_loopback())
}

/// Whether a Host header is a name of the machine itself.
pub fn is_loopback_host(host: &str) -> bool {
    name_of(host).is_some_and(is_loopback_name)
}

/// An address needs no name to be resolved, so that nobody can lead it elsewhere.
fn is_address(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok() || v6(name).is_some()
}

fn v6(name: &str) -> Option<Ipv6Addr> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(public_url: Option<&str>, allowed: &[&str]) -> Settings {
        Settings {
            public_url: public_url.map(|url| url.parse().unwrap()),
            base_path: crate::BasePath::default(),
            allowed_hosts: allowed.iter().map(|&name| name.to_owned()).collect(),
            read_only: false,
            instance: None,
            max_upload: 1 << 30,
            forward_auth: None,
        }
    }

    #[test]
    fn on_loopback_only_loopback_names_and_configured_ones_are_this_server() {
        let settings = settings(Some("https://redrive.example:8443/x"), &["ops.internal"]);
        let hosts = Hosts { settings: &settings, is_local: true };
        for ours in
            ["localhost", "LOCALHOST:7117", "a.localhost:1", "127.0.0.1:7117", "127.9.9.9", "[::1]:7117", "[::1]"]
        {
            assert!(hosts.admit(ours), "{ours}");
        }
        assert!(hosts.admit("redrive.example:8443") && hosts.admit("Ops.Internal"));
        let foreign = ["evil.example", "localhost.evil.example", "10.0.0.1", "", ":80", "[::1", "localhost:x", "[::2]"];
        for foreign in foreign {
            assert!(!hosts.admit(foreign), "{foreign}");
        }
    }

    #[test]
    fn elsewhere_an_address_is_this_server_and_an_unknown_name_is_not() {
        let settings = settings(None, &[]);
        let hosts = Hosts { settings: &settings, is_local: false };
        assert!(hosts.admit("10.0.0.1:7117") && hosts.admit("[2001:db8::1]") && hosts.admit("localhost"));
        assert!(!hosts.admit("evil.example:7117"));
    }
}
