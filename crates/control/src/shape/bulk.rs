//! Plans, operations as they go on, and what became of each of their items.

use std::collections::BTreeMap;

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;
use redrive_store::{BulkItem, BulkOperation, BulkState, KeptPlan, Operation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::operation::SubjectShape;
use super::report::Changed;

/// A dry run that is kept and binds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanShape {
    pub plan_id: Uuid,
    #[schemars(with = "String")]
    pub operation: Value,
    pub expires_at: Timestamp,
    pub matched: u64,
    pub would_change: u64,
    #[schemars(with = "BTreeMap<String, u64>")]
    pub by_reason: Value,
    #[schemars(with = "Vec<Changed>")]
    pub sample: Value,
    #[schemars(with = "Option<String>")]
    pub reason: Value,
    pub actor: String,
    /// The operation that was made of it.
    pub op_id: Option<OpId>,
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl From<KeptPlan> for PlanShape {
    fn from(plan: KeptPlan) -> Self {
        let task = parsed(&plan.task);
        let said = |field: &str| {
            task.as_object().and_then(|task| task.values().next()).map_or(Value::Null, |t| t[field].clone())
        };
        Self {
            plan_id: plan.plan_id,
            operation: said("operation"),
            expires_at: plan.expires_at,
            matched: plan.matched,
            would_change: plan.would_change,
            by_reason: parsed(&plan.by_reason),
            sample: parsed(&plan.sample),
            reason: said("reason"),
            actor: plan.actor,
            op_id: plan.op_id,
        }
    }
}

/// An operation as it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BulkOperationShape {
    pub op_id: OpId,
    pub operation: String,
    pub state: &'static str,
    pub matched: u64,
    pub changed: u64,
    pub skipped: u64,
    pub failed: u64,
    #[schemars(with = "BTreeMap<String, u64>")]
    pub by_reason: Value,
    pub reason: Option<String>,
    pub actor: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub undo_of: Option<OpId>,
    /// What ended it, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<BulkOperation> for BulkOperationShape {
    fn from(bulk: BulkOperation) -> Self {
        let operation = parsed(&bulk.operation);
        let said = |field: &str| operation[field].as_str().map(str::to_owned);
        Self {
            op_id: bulk.op_id,
            operation: bulk.verb,
            state: bulk.state.as_str(),
            matched: bulk.matched,
            changed: bulk.changed,
            skipped: bulk.skipped,
            failed: bulk.failed,
            by_reason: parsed(&bulk.by_reason),
            reason: said("reason"),
            actor: said("actor").unwrap_or_default(),
            started_at: bulk.started_at,
            finished_at: bulk.finished_at,
            undo_of: bulk.undo_of,
            error: bulk.fault,
        }
    }
}

/// Words of commands and routes that name an operation.
const VERBS: [&str; 12] = [
    "retry",
    "reprocess",
    "withdraw",
    "backfill",
    "mark-terminal",
    "clear-terminal",
    "pause",
    "resume",
    "undo",
    "cancel",
    "hold",
    "drain",
];

impl BulkOperationShape {
    /// An operation that was done at once, of which the audit trail alone knows.
    pub fn of_audited(operation: Operation, changed: u64) -> Self {
        let filters = parsed(&operation.filters);
        let mut words = operation.command.split([' ', '/']).map(|word| if word == "holds" { "hold" } else { word });
        let word = words.find(|word| VERBS.contains(word));
        Self {
            op_id: operation.op_id,
            operation: word.unwrap_or(&operation.command).to_owned(),
            state: BulkState::Done.as_str(),
            matched: changed,
            changed,
            skipped: 0,
            failed: 0,
            by_reason: Value::Object(Map::new()),
            reason: operation.reason,
            actor: operation.actor,
            started_at: operation.at,
            finished_at: Some(operation.at),
            undo_of: filters["operation"].as_str().and_then(|id| id.parse().ok()),
            error: None,
        }
    }
}

/// What became of one item of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BulkItemShape {
    #[serde(flatten)]
    #[schemars(with = "SubjectShape")]
    pub subject: Map<String, Value>,
    pub outcome: Option<&'static str>,
    pub reason: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

impl From<BulkItem> for BulkItemShape {
    fn from(item: BulkItem) -> Self {
        Self {
            subject: serde_json::from_str(&item.subject).unwrap_or_default(),
            outcome: item.outcome.map(|outcome| outcome.as_str()),
            reason: item.reason,
            from: item.was,
            to: item.becomes,
        }
    }
}
