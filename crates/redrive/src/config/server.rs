//! The `[server]` section, made into what `redrive serve` needs of it.

use redrive_data::settings::SettingError;
use redrive_server::{ForwardAuth, Network, Settings};

use super::Ingestion;
use super::sections::{ForwardAuthSection, ServerSection};

pub(super) fn resolve(section: &ServerSection, ingestion: &Ingestion) -> Result<Settings, SettingError> {
    let invalid = |key: &str, why: String| SettingError::at(key, why).within("server");
    let public_url = section.public_url.as_deref().map(|text| {
        let todo = "write it like https://redrive.example.org";
        let url: url::Url = text.parse().map_err(|why| invalid("public_url", format!("is no URL: {why}; {todo}")))?;
        match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(_)) => Ok(url),
            (_, _) => Err(invalid("public_url", format!("is no address of a web server; {todo}"))),
        }
    });
    for (nth, host) in section.allowed_hosts.iter().enumerate() {
        if host.is_empty() || host.contains(['/', '*', ' ']) || (host.contains(':') && !host.starts_with('[')) {
            let why = "is no name of a host; write it without scheme, port and wildcards, like redrive.example.org";
            return Err(SettingError::at(nth, why).within("allowed_hosts").within("server"));
        }
    }
    Ok(Settings {
        public_url: public_url.transpose()?,
        base_path: section.base_path.parse().map_err(|error| invalid("base_path", format!("{error}")))?,
        allowed_hosts: section.allowed_hosts.clone(),
        read_only: section.read_only,
        instance: section.instance.clone(),
        max_upload: section.max_upload.unwrap_or(u64::MAX).min(ingestion.max_upload),
        forward_auth: match &section.forward_auth {
            Some(section) => {
                Some(forward_auth(section).map_err(|error| error.within("forward_auth").within("server"))?)
            }
            None => None,
        },
    })
}

fn forward_auth(section: &ForwardAuthSection) -> Result<ForwardAuth, SettingError> {
    let mut trusted_proxies = Vec::new();
    for (nth, text) in section.trusted_proxies.iter().enumerate() {
        let network: Network =
            text.parse().map_err(|error| SettingError::at(nth, format!("{error}")).within("trusted_proxies"))?;
        trusted_proxies.push(network);
    }
    if trusted_proxies.is_empty() {
        return Err(SettingError::at("trusted_proxies", "names no proxy, so that nobody would be believed; list one"));
    }
    if section.roles.is_empty() {
        return Err(SettingError::at("roles", "gives no group a role, so that nobody could do anything; give one"));
    }
    let header = |key: &str, name: &str| {
        name.parse().map_err(|_| SettingError::at(key, "is no name of a header; write it like X-Forwarded-User"))
    };
    Ok(ForwardAuth {
        trusted_proxies,
        user_header: header("user_header", &section.user_header)?,
        groups_header: section.groups_header.as_deref().map(|name| header("groups_header", name)).transpose()?,
        roles: section.roles.clone(),
    })
}
