//! `[[notify]]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_core::key::Source;
use redrive_core::notice::NoticeKind;
use redrive_data::settings::{SecretRef, ValueRef, duration, paths};
use serde::Deserialize;

/// `[[notify]]`: who is told what happens, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifySection {
    pub name: String,
    pub kind: NotifyKind,
    /// Where a webhook or a message is posted.
    pub url: Option<ValueRef>,
    /// What webhooks are signed with.
    pub secret: Option<SecretRef>,
    /// A program that gets the notification on stdin.
    #[serde(default)]
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    #[serde(default = "crate::config::notify::timeout", deserialize_with = "duration::de")]
    pub timeout: Duration,
    /// Only these; nothing means all.
    #[serde(default)]
    pub events: Vec<NoticeKind>,
    /// Only what is of these sources; nothing means all.
    #[serde(default)]
    pub sources: Vec<Source>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyKind {
    Webhook,
    Slack,
    Command,
}

impl NotifySection {
    pub(super) fn start_from(&mut self, folder: &Path) {
        if !self.command.is_empty() {
            self.directory = paths::directory(self.directory.take(), folder);
        }
        paths::start(&mut self.ca_file, folder);
        if let Some(secret) = &mut self.secret {
            secret.start_from(folder);
        }
        if let Some(url) = &mut self.url {
            url.start_from(folder);
        }
    }
}
