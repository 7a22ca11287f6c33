//! The write side: what can be seen, and the store's control handle.

use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;
use redrive_store::{ControlStore, Operation, View};

use crate::insight::Insight;
use crate::sink::Sink;
use crate::sources::Sources;

#[derive(Debug, Clone)]
pub struct ControlPlane {
    pub(crate) insight: Insight,
    pub(crate) store: ControlStore,
    /// Who acts: a person at a host, a token, or a daemon.
    pub(crate) actor: String,
}

impl ControlPlane {
    pub fn new(store: ControlStore, raw: Sink, sources: Sources, actor: String, earliest_date: LogicalDate) -> Self {
        Self { insight: Insight::new(store.view(), raw, sources, earliest_date), store, actor }
    }

    pub fn insight(&self) -> &Insight {
        &self.insight
    }

    pub(crate) fn view(&self) -> &View {
        self.insight.view()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    pub(crate) fn operation(&self, command: &str, filters: String, flags: String, reason: Option<String>) -> Operation {
        Operation {
            op_id: self.store.new_operation_id(),
            at: self.now(),
            actor: self.actor.clone(),
            command: command.to_owned(),
            filters,
            flags,
            reason,
        }
    }
}
