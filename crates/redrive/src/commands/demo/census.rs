//! How all partitions stand at one moment.

use std::collections::BTreeMap;

use redrive_control::Insight;
use redrive_core::outlook::Outlook;
use redrive_core::partition::Partition;
use redrive_core::retry::StopReason;
use redrive_store::Page;
use serde::Serialize;

use crate::error::Result;

/// More than the demo has, so that one page is all.
const ALL: u32 = 10_000;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Census {
    pub partitions: u64,
    pub success: u64,
    /// Of the successes: those that took more than one attempt.
    pub retried: u64,
    pub attempts: u64,
    pub records: u64,
    #[serde(skip)]
    pub running: u64,
    /// Queued, or held back for a while.
    #[serde(skip)]
    pub waiting: u64,
    /// What will not be tried again by itself: why, and how many.
    pub stopped: BTreeMap<String, u64>,
}

impl Census {
    pub async fn take(insight: &Insight) -> Result<Self> {
        let page = Page { limit: ALL, ..Page::default() };
        let partitions = insight.view().partitions(page).await?;
        let holds = insight.holds().await?;
        let mut census = Self::default();
        for partition in &partitions {
            census.count(partition, &insight.outlook(partition, &holds));
        }
        Ok(census)
    }

    fn count(&mut self, partition: &Partition, outlook: &Outlook) {
        let state = &partition.state;
        self.partitions += 1;
        self.attempts += u64::from(state.attempt_count);
        self.records += state.record_count.unwrap_or(0);
        let message = || state.error_message.clone().unwrap_or_default();
        match outlook {
            Outlook::Done => {
                self.success += 1;
                self.retried += u64::from(state.attempt_count > 1);
            }
            Outlook::InFlight { .. } => self.running += 1,
            Outlook::Queued { .. }
            | Outlook::Held(_)
            | Outlook::Waiting { .. }
            | Outlook::Due { .. }
            | Outlook::NotQueued => self.waiting += 1,
            Outlook::FinalError => *self.stopped.entry(format!("final: {}", message())).or_default() += 1,
            Outlook::TooOldByThen { .. } => {
                *self.stopped.entry(format!("{}: {}", StopReason::TooOld, message())).or_default() += 1;
            }
            Outlook::Exhausted(stop) => *self.stopped.entry(format!("{stop}: {}", message())).or_default() += 1,
            Outlook::Marked(_) | Outlook::Paused(_) => *self.stopped.entry("withheld".to_owned()).or_default() += 1,
        }
    }

    pub fn stopped(&self) -> u64 {
        self.stopped.values().sum()
    }

    /// Whether nothing more will happen by itself.
    pub fn is_settled(&self) -> bool {
        self.partitions > 0 && self.running == 0 && self.waiting == 0
    }
}
