//! The control plane's own parts: the store's control handle, a read-only view of the raw sink, and the sources' rules.

use redrive_core::filter::DateBounds;
use redrive_core::key::{LogicalDate, PartitionKey};
use redrive_core::outlook::{self, Outlook};
use redrive_core::partition::{self, Partition, Terminal};
use redrive_core::time::Timestamp;
use redrive_store::{ControlStore, Cooldown, Operation, View};

use crate::error::Result;
use crate::sink::Sink;
use crate::sources::Sources;

#[derive(Debug, Clone)]
pub struct ControlPlane {
    pub(crate) store: ControlStore,
    pub(crate) raw: Sink,
    pub(crate) sources: Sources,
    /// Who acts: a person at a host, a token, or a daemon.
    pub(crate) actor: String,
    pub(crate) earliest_date: LogicalDate,
}

impl ControlPlane {
    pub fn new(store: ControlStore, raw: Sink, sources: Sources, actor: String, earliest_date: LogicalDate) -> Self {
        Self { store, raw, sources, actor, earliest_date }
    }

    pub fn view(&self) -> View {
        self.store.view()
    }

    pub fn now(&self) -> Timestamp {
        self.store.now()
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The dates that commands may speak of.
    pub fn bounds(&self) -> DateBounds {
        crate::dates::bounds(self.earliest_date, self.now())
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

    /// What happens next to a partition.
    pub fn outlook(&self, partition: &Partition, cooldowns: &[Cooldown]) -> Outlook {
        let key = &partition.state.key;
        let policy = &self.sources.of(&key.source).retry;
        outlook::of(partition, policy, cooling(cooldowns, key), self.now())
    }

    /// Whether a partition is terminal, and by what: also while it is paused or in flight, when its outlook does not tell.
    pub fn terminal<'a>(&self, partition: &'a Partition) -> Option<Terminal<'a>> {
        let policy = &self.sources.of(&partition.state.key.source).retry;
        partition::terminal(partition, policy, self.now())
    }

    pub async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        Ok(self.store.view().cooldowns().await?)
    }
}

/// Until when a partition's source or customer is to be left alone.
pub(crate) fn cooling(cooldowns: &[Cooldown], key: &PartitionKey) -> Option<Timestamp> {
    let mine = cooldowns.iter().filter(|cooldown| cooldown.covers(&key.source, &key.customer_id));
    mine.map(|cooldown| cooldown.until).max()
}
