//! The write side: what can be seen, and the store's control handle.

use redrive_core::key::LogicalDate;
use redrive_store::ControlStore;

use crate::insight::Insight;
use crate::runs::Queues;
use crate::sink::Sink;
use crate::sources::Sources;
use crate::uploads::UploadRules;

#[derive(Debug, Clone)]
pub struct ControlPlane {
    pub(crate) insight: Insight,
    pub(crate) store: ControlStore,
}

impl ControlPlane {
    pub fn new(store: ControlStore, raw: Sink, sources: Sources, earliest_date: LogicalDate) -> Self {
        Self { insight: Insight::new(store.view(), raw, sources, earliest_date), store }
    }

    /// Knows these sections of jobs.
    pub fn with_queues(self, queues: Queues) -> Self {
        Self { insight: self.insight.with_queues(queues), ..self }
    }

    /// Knows what is configured for uploads.
    pub fn with_uploads(self, uploads: UploadRules) -> Self {
        Self { insight: self.insight.with_uploads(uploads), ..self }
    }

    pub fn insight(&self) -> &Insight {
        &self.insight
    }

    /// Writes the audit chain's head to the log, so that cutting off its tail shows.
    pub(crate) async fn log_head(&self) {
        match self.insight.view().audit_head().await {
            Ok(head) => tracing::info!(%head, "audit head"),
            Err(error) => tracing::warn!(%error, "the audit head could not be read"),
        }
    }
}
