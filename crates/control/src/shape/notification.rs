//! A notification as scripts see it, with what became of it at each receiver.

use std::collections::BTreeSet;

use redrive_core::id::NotificationId;
use redrive_core::notice::{NoticeKind, NoticeWords};
use redrive_core::time::Timestamp;
use redrive_store::{DeliveryState, Notification};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotificationShape {
    pub id: NotificationId,
    pub at: Timestamp,
    pub event: NoticeKind,
    pub what: String,
    pub count: u64,
    pub at_least: bool,
    pub since: Timestamp,
    pub next: String,
    pub sources: BTreeSet<String>,
    pub categories: BTreeSet<String>,
    pub audit_head: String,
    pub deliveries: Vec<DeliveryShape>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeliveryShape {
    pub receiver: String,
    pub attempts: u32,
    pub delivered_at: Option<Timestamp>,
    /// When it is tried next; none once it was delivered.
    pub next_at: Option<Timestamp>,
    pub error: Option<String>,
}

impl NotificationShape {
    /// Shows a notification, with the interface's words for what a person can do.
    pub fn new(notification: Notification, words: NoticeWords) -> Self {
        let next = notification.notice.next_in(words);
        let Notification { id, at, notice, audit_head, deliveries, .. } = notification;
        Self {
            id,
            at,
            event: notice.event,
            what: notice.what,
            count: notice.count,
            at_least: notice.at_least,
            since: notice.since,
            next,
            sources: notice.sources,
            categories: notice.categories,
            audit_head,
            deliveries: deliveries.into_iter().map(DeliveryShape::from).collect(),
        }
    }
}

impl From<DeliveryState> for DeliveryShape {
    fn from(state: DeliveryState) -> Self {
        let DeliveryState { receiver, attempts, delivered_at, due_at, error } = state;
        let next_at = if delivered_at.is_some() { None } else { Some(due_at) };
        Self { receiver, attempts, delivered_at, next_at, error }
    }
}
