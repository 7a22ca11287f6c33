//! A failure group: what is failed now and has one cause.

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::GroupId;
use redrive_core::time::Timestamp;
use redrive_store::RunGroup;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
            error_class: group.class,
            template: group.template,
            sample: group.sample,
            categories: group.categories,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
            waiting: group.waiting,
            final_errors: group.final_errors,
            exhausted: group.exhausted,
        }
    }
}
