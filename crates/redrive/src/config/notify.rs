//! The `[[notify]]` sections, made into receivers.

use std::time::Duration;

use redrive_data::notify::{Receiver, ReceiverKind, ReceiverSettings};
use redrive_data::settings::{SettingError, Surroundings};

use super::sections::{NotifyKind, NotifySection};

/// A sender's lease on a delivery is longer.
const LONGEST: Duration = Duration::from_secs(90);

pub(super) fn timeout() -> Duration {
    Duration::from_secs(15)
}

/// What no single key's type can tell.
pub(super) fn check(sections: &[NotifySection]) -> Result<(), SettingError> {
    for (nth, section) in sections.iter().enumerate() {
        let invalid = |key: &str, why: String| Err(SettingError::at(key, why).within(nth).within("notify"));
        if section.name.trim().is_empty() {
            return invalid("name", "is empty; the outbox knows a receiver by its name".to_owned());
        }
        if sections[..nth].iter().any(|other| other.name == section.name) {
            return invalid("name", format!("{:?} is the name of two receivers; choose another", section.name));
        }
        if section.timeout.is_zero() || section.timeout > LONGEST {
            return invalid("timeout", "must be more than nothing and at most 90s".to_owned());
        }
    }
    Ok(())
}

pub(super) fn resolve(sections: &[NotifySection], around: &Surroundings) -> Result<Vec<Receiver>, SettingError> {
    let receiver = |(nth, section): (usize, &NotifySection)| {
        let sources: Vec<String> = section.sources.iter().map(ToString::to_string).collect();
        let settings = ReceiverSettings {
            name: &section.name,
            kind: match section.kind {
                NotifyKind::Webhook => ReceiverKind::Webhook,
                NotifyKind::Slack => ReceiverKind::Slack,
                NotifyKind::Command => ReceiverKind::Command,
            },
            url: section.url.as_ref(),
            secret: section.secret.as_ref(),
            command: &section.command,
            directory: section.directory.as_deref(),
            ca_file: section.ca_file.as_deref(),
            timeout: section.timeout,
            events: &section.events,
            sources: &sources,
        };
        Receiver::new(&settings, around).map_err(|mistake| mistake.within(nth).within("notify"))
    };
    sections.iter().enumerate().map(receiver).collect()
}
