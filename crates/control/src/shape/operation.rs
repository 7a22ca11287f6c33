//! An operation in the audit trail, and what it changed.

use redrive_core::id::{HoldId, OpId, RunId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::ControlSnapshot;
use redrive_core::run::RunSnapshot;
use redrive_core::time::Timestamp;
use redrive_store::{AuditedChange, HoldChange, Operation, PastOperation, Subject, Verified};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::hold::HoldShape;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationShape {
    pub op_id: OpId,
    /// Its place in the audit trail; left out where one operation is shown with its changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub at: Timestamp,
    pub actor: String,
    pub command: String,
    pub filters: Value,
    pub flags: Value,
    pub reason: Option<String>,
    /// How many partitions, runs or holds it changed; left out where the changes themselves follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
}

impl From<Operation> for OperationShape {
    fn from(operation: Operation) -> Self {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Self {
            op_id: operation.op_id,
            seq: None,
            at: operation.at,
            filters: parsed(&operation.filters),
            flags: parsed(&operation.flags),
            actor: operation.actor,
            command: operation.command,
            reason: operation.reason,
            changes: None,
        }
    }
}

impl From<PastOperation> for OperationShape {
    fn from(past: PastOperation) -> Self {
        Self { seq: Some(past.seq), changes: Some(past.changes), ..Self::from(past.operation) }
    }
}

/// One change of an operation: what it was about, before and after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangeShape {
    #[serde(flatten)]
    pub subject: SubjectShape,
    /// None where the operation made it.
    pub before: Option<StandShape>,
    pub after: StandShape,
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SubjectShape {
    Partition(PartitionKey),
    Run { run_id: RunId },
    Hold { hold_id: HoldId },
}

/// How a partition, a run or a hold stood.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StandShape {
    Partition(ControlSnapshot),
    Run(#[schemars(with = "RunSnapshot")] Value),
    /// None where there was none.
    Hold(Option<HoldShape>),
}

impl StandShape {
    pub fn hold(&self) -> Option<&HoldShape> {
        match self {
            Self::Hold(hold) => hold.as_ref(),
            Self::Partition(_) | Self::Run(_) => None,
        }
    }

    /// The one word for it: a partition's status, a run's state, whether a hold was there.
    pub fn word(&self) -> &str {
        match self {
            Self::Partition(snapshot) => snapshot.status.as_str(),
            Self::Run(value) => value["state"].as_str().unwrap_or_default(),
            Self::Hold(Some(_)) => "held",
            Self::Hold(None) => "lifted",
        }
    }
}

/// Whether the trail's chain is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum VerifiedShape {
    Whole { whole: bool, rows: i64, head: String },
    Broken { whole: bool, broken_at: i64, why: String },
}

impl From<Verified> for VerifiedShape {
    fn from(verified: Verified) -> Self {
        match verified {
            Verified::Whole(head) => Self::Whole { whole: true, rows: head.seq, head: head.hex() },
            Verified::Broken { seq, why } => Self::Broken { whole: false, broken_at: seq, why },
        }
    }
}

impl TryFrom<AuditedChange> for ChangeShape {
    type Error = crate::Error;

    fn try_from(change: AuditedChange) -> Result<Self, Self::Error> {
        let parsed = |text: &str| StandShape::Run(serde_json::from_str(text).unwrap_or_default());
        let (before, after) = match &change.subject {
            Subject::Partition(_) => {
                let (before, after) = change.snapshots()?;
                (before.map(StandShape::Partition), StandShape::Partition(after))
            }
            Subject::Hold(_) => {
                let HoldChange { before, after } = change.hold_change()?;
                (before.map(|hold| StandShape::Hold(Some(hold.into()))), StandShape::Hold(after.map(HoldShape::from)))
            }
            Subject::Run(_) => (change.before.as_deref().map(parsed), parsed(&change.after)),
        };
        let subject = match change.subject {
            Subject::Partition(key) => SubjectShape::Partition(key),
            Subject::Run(run_id) => SubjectShape::Run { run_id },
            Subject::Hold(hold_id) => SubjectShape::Hold { hold_id },
        };
        Ok(Self { subject, before, after })
    }
}
