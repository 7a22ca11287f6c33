//! A partition as it is now, with its attempts where they are asked for.

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Mark, Partition, Status, Terminal};
use redrive_core::retry::StopReason;
use redrive_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::attempt::AttemptShape;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartitionShape {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub status: Status,
    pub current_run_id: Option<RunId>,
    pub record_count: Option<u64>,
    pub attempt_count: u32,
    /// Attempts that persons gave beyond the policy's.
    #[serde(skip_serializing_if = "is_zero")]
    pub granted: u32,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub terminal: Option<TerminalShape>,
    pub paused: Option<MarkShape>,
    pub lane: Option<Lane>,
    pub next_retry_at: Option<Timestamp>,
    pub active_run_id: Option<RunId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Every attempt, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<AttemptShape>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// An operator's mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MarkShape {
    pub why: Option<String>,
    pub by: String,
    pub at: Timestamp,
}

/// Why a partition is terminal: an operator's mark, or the policy's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TerminalShape {
    pub why: Option<String>,
    pub by: Option<String>,
    pub at: Option<Timestamp>,
    pub policy: Option<StopReason>,
}

impl From<&Mark> for MarkShape {
    fn from(Mark { by, at, why }: &Mark) -> Self {
        Self { why: why.clone(), by: by.clone(), at: *at }
    }
}

impl From<Terminal<'_>> for TerminalShape {
    fn from(terminal: Terminal<'_>) -> Self {
        match terminal {
            Terminal::Marked(Mark { by, at, why }) => {
                Self { why: why.clone(), by: Some(by.clone()), at: Some(*at), policy: None }
            }
            Terminal::ByPolicy(stop) => Self { why: None, by: None, at: None, policy: Some(stop) },
        }
    }
}

impl PartitionShape {
    /// The shape of a partition about which outlook and terminal state are known.
    pub fn new(partition: Partition, outlook: &Outlook, terminal: Option<TerminalShape>) -> Self {
        let Partition { state, control } = partition;
        Self {
            key: state.key,
            status: state.status,
            current_run_id: state.current_run_id,
            record_count: state.record_count,
            attempt_count: state.attempt_count,
            granted: control.granted,
            error_class: state.error_class,
            error_message: state.error_message,
            terminal,
            paused: control.paused.as_ref().map(MarkShape::from),
            lane: control.wanted.map(|wanted| wanted.lane),
            next_retry_at: outlook.next_retry_at(),
            active_run_id: control.active.map(|active| active.run_id),
            created_at: state.created_at,
            updated_at: state.updated_at,
            history: None,
        }
    }
}
