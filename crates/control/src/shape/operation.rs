//! An operation in the audit trail, and what it changed.

use redrive_core::id::OpId;
use redrive_core::key::PartitionKey;
use redrive_core::partition::ControlSnapshot;
use redrive_core::time::Timestamp;
use redrive_store::{AuditedChange, Operation, PastOperation};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// How many partitions it changed; left out where the changes themselves follow.
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

/// One partition of an operation, before and after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeShape {
    #[serde(flatten)]
    pub key: PartitionKey,
    /// None where the operation made the partition.
    pub before: Option<ControlSnapshot>,
    pub after: ControlSnapshot,
}

impl From<AuditedChange> for ChangeShape {
    fn from(AuditedChange { key, before, after }: AuditedChange) -> Self {
        Self { key, before, after }
    }
}
