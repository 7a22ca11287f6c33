//! Which runs a request means.

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::GroupId;
use redrive_core::run::{State, Workload};
use redrive_core::time::Timestamp;
use redrive_store::RunPage;
use serde::Serialize;

/// Every condition that is given must hold. The times are of submission, the last one left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub category: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<ErrorClass>,
    /// Only what is failed now: what waits after a failure, and what is dead by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl RunFilter {
    /// The first page of these runs.
    pub fn page(&self, limit: u32) -> RunPage {
        RunPage {
            workload: self.workload,
            categories: (!self.category.is_empty()).then(|| self.category.clone()),
            states: self.state.clone(),
            error_class: self.error_class,
            group: self.group,
            since: self.since,
            until: self.until,
            before: None,
            limit,
        }
    }

    /// Whether it names nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
