//! A failure group: what is failed now and has one cause.

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::GroupId;
use redrive_core::time::Timestamp;
use redrive_store::{PartitionGroup, RunGroup};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunGroupShape {
    pub group: GroupId,
    pub count: u64,
    pub error_class: ErrorClass,
    pub template: String,
    pub sample: String,
    pub categories: Vec<String>,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub waiting: u64,
    #[serde(rename = "final")]
    pub final_errors: u64,
    pub exhausted: u64,
}

impl From<RunGroup> for RunGroupShape {
    fn from(group: RunGroup) -> Self {
        Self {
            count: group.count(),
            group: group.group,
            error_class: group.description.class,
            template: group.description.template,
            sample: group.description.sample,
            categories: group.categories,
            first_seen: group.description.first_seen,
            last_seen: group.description.last_seen,
            waiting: group.waiting,
            final_errors: group.final_errors,
            exhausted: group.exhausted,
        }
    }
}

/// How many customers a group names; `customer_count` counts them all.
const CUSTOMERS: usize = 20;

/// Partitions that are failed now and have one cause. What is withheld by a person is counted, and is neither waiting, final nor
/// exhausted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupShape {
    pub group: GroupId,
    pub count: u64,
    pub error_class: ErrorClass,
    pub template: String,
    pub sample: String,
    pub sources: Vec<String>,
    /// Those with the most partitions first.
    pub customers: Vec<String>,
    pub customer_count: usize,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// Automation tries them again.
    pub waiting: u64,
    #[serde(rename = "final")]
    pub final_errors: u64,
    pub exhausted: u64,
}

impl GroupShape {
    /// Marked terminal or paused by a person.
    pub fn withheld(&self) -> u64 {
        self.count.saturating_sub(self.waiting + self.final_errors + self.exhausted)
    }
}

impl From<PartitionGroup> for GroupShape {
    fn from(group: PartitionGroup) -> Self {
        let mut customers: Vec<_> = group.customers.into_iter().collect();
        customers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let customer_count = customers.len();
        let open = group.count.saturating_sub(group.withheld + group.exhausted);
        let (waiting, final_errors) = match group.description.class {
            ErrorClass::Final => (0, open),
            ErrorClass::Retryable | ErrorClass::RateLimited => (open, 0),
        };
        Self {
            group: group.group,
            count: group.count,
            error_class: group.description.class,
            template: group.description.template,
            sample: group.description.sample,
            sources: group.sources.into_iter().collect(),
            customers: customers.into_iter().take(CUSTOMERS).map(|((_, customer), _)| customer).collect(),
            customer_count,
            first_seen: group.description.first_seen,
            last_seen: group.description.last_seen,
            waiting,
            final_errors,
            exhausted: group.exhausted,
        }
    }
}
