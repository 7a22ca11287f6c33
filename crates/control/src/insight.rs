//! The read side: what the store holds, seen with the sources' rules. Nothing here can change anything.

use std::time::Duration;

use redrive_core::filter::DateBounds;
use redrive_core::hold::{self, Hold};
use redrive_core::key::LogicalDate;
use redrive_core::outlook::{self, Outlook};
use redrive_core::partition::{self, Partition, Terminal};
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_store::View;

use crate::runs::Queues;
use crate::shape::{AttemptShape, PartitionShape, TerminalShape};
use crate::sink::Sink;
use crate::sources::Sources;
use crate::uploads::UploadRules;

#[derive(Debug, Clone)]
pub struct Insight {
    view: View,
    pub(crate) raw: Sink,
    sources: Sources,
    earliest_date: LogicalDate,
    queues: Queues,
    uploads: UploadRules,
}

impl Insight {
    pub fn new(view: View, raw: Sink, sources: Sources, earliest_date: LogicalDate) -> Self {
        Self { view, raw, sources, earliest_date, queues: Queues::default(), uploads: UploadRules::default() }
    }

    /// Knows these sections of jobs.
    pub fn with_queues(self, queues: Queues) -> Self {
        Self { queues, ..self }
    }

    /// Knows what is configured for uploads.
    pub fn with_uploads(self, uploads: UploadRules) -> Self {
        Self { uploads, ..self }
    }

    pub(crate) fn uploads(&self) -> &UploadRules {
        &self.uploads
    }

    pub(crate) fn uploads_kept(&self) -> Option<Duration> {
        self.uploads.keep
    }

    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn now(&self) -> Timestamp {
        self.view.now()
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The dates that a request may name.
    pub fn bounds(&self) -> DateBounds {
        crate::dates::bounds(self.earliest_date, self.now())
    }

    /// Says what happens next to a partition, with the holds in force.
    pub fn outlook(&self, partition: &Partition, holds: &[Hold]) -> Outlook {
        let key = &partition.state.key;
        let policy = &self.sources.of(&key.source).retry;
        let now = self.now();
        outlook::of(partition, policy, hold::reason(holds, key, now), now)
    }

    /// Says whether a partition is terminal, and by what. Its outlook does not while it is paused or in flight.
    pub fn terminal<'a>(&self, partition: &'a Partition) -> Option<Terminal<'a>> {
        let policy = &self.sources.of(&partition.state.key.source).retry;
        partition::terminal(partition, policy, self.now())
    }

    /// Gives a partition in the form that scripts rely on, with its attempts where they were read.
    pub fn describe(&self, partition: Partition, outlook: &Outlook, attempts: Option<&[Run]>) -> PartitionShape {
        let terminal = self.terminal(&partition).map(TerminalShape::from);
        let history = attempts.map(|runs| runs.iter().map(AttemptShape::from).collect());
        PartitionShape { history, ..PartitionShape::new(partition, outlook, terminal) }
    }
}
