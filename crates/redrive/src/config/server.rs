//! The `[server]` section, made into what `redrive serve` needs of it.

use redrive_data::settings::SettingError;
use redrive_server::Settings;

use super::Ingestion;
use super::sections::ServerSection;

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
    })
}
