//! Who is told: one `[[notify]]` of the configuration, what it wants to hear of, and the form that it is told in.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::notice::{Notice, NoticeKind};
use redrive_core::text::escape_json;
use redrive_store::Notification;
use redrive_store::clock::Clock;
use serde_json::json;

use super::command::Command;
use super::web::Web;
use crate::failure::Failure;
use crate::settings::{SecretRef, SettingError, Surroundings, ValueRef};

/// In which form a receiver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverKind {
    Webhook,
    Slack,
    Command,
}

/// What the configuration says of a receiver.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverSettings<'a> {
    pub name: &'a str,
    pub kind: ReceiverKind,
    pub url: Option<&'a ValueRef>,
    /// What webhooks are signed with.
    pub secret: Option<&'a SecretRef>,
    pub command: &'a [String],
    pub directory: Option<&'a Path>,
    pub ca_file: Option<&'a Path>,
    /// How long one delivery may take.
    pub timeout: Duration,
    /// Only these; none for all.
    pub events: &'a [NoticeKind],
    /// Only what is of these sources; none for all.
    pub sources: &'a [String],
}

#[derive(Debug)]
pub struct Receiver {
    pub name: String,
    events: Vec<NoticeKind>,
    sources: Vec<String>,
    timeout: Duration,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Web(Box<Web>),
    Command(Box<Command>),
}

impl Receiver {
    pub fn new(settings: &ReceiverSettings<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        let way = match settings.kind {
            ReceiverKind::Webhook => Way::Web(Box::new(Web::webhook(settings, around)?)),
            ReceiverKind::Slack => Way::Web(Box::new(Web::slack(settings, around)?)),
            ReceiverKind::Command => Way::Command(Box::new(Command::new(settings, around)?)),
        };
        Ok(Self {
            name: settings.name.to_owned(),
            events: settings.events.to_vec(),
            sources: settings.sources.to_vec(),
            timeout: settings.timeout,
            way,
        })
    }

    /// Whether it is told of this.
    pub fn wants(&self, notice: &Notice) -> bool {
        notice.is_for(&self.events, &self.sources)
    }

    /// Hands a notification over; no longer than its time-out.
    pub(super) async fn send(&self, envelope: &Envelope<'_>, clock: &Arc<dyn Clock>) -> Result<(), Failure> {
        let sending = async {
            match &self.way {
                Way::Web(web) => web.send(envelope, clock).await,
                Way::Command(command) => command.send(envelope).await,
            }
        };
        match tokio::time::timeout(self.timeout, sending).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure::retryable(format!("no answer within {} s", self.timeout.as_secs_f64()))),
        }
    }
}

/// A notification with what only the sender knows.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) notification: &'a Notification,
    /// What people call this installation.
    pub(super) instance: &'a str,
    /// What happens next, and what a person can do.
    pub(super) next: String,
    /// Where it is shown, if people can reach the server.
    pub(super) link: Option<String>,
}

impl Envelope<'_> {
    /// `{"type", "timestamp", "data"}`, as Standard Webhooks has it.
    pub(super) fn json(&self) -> String {
        let Notification { id, at, notice, audit_head, .. } = self.notification;
        let mut data = serde_json::to_value(notice).unwrap_or_default();
        if let Some(data) = data.as_object_mut() {
            data.remove("path");
            data.remove("action");
            data.insert("next".to_owned(), json!(self.next));
            data.insert("id".to_owned(), json!(id));
            data.insert("instance".to_owned(), json!(self.instance));
            data.insert("link".to_owned(), json!(self.link));
            data.insert("audit_head".to_owned(), json!(audit_head));
        }
        let all = json!({"type": notice.event, "timestamp": at, "data": data});
        escape_json(&all.to_string()).into_owned()
    }
}
