//! Who asks for a change, and how: what the audit trail keeps of a request.

use redrive_store::Operation;
use serde::Serialize;
use serde_json::{Value, json};

use crate::plane::ControlPlane;

/// One request's entry in the audit trail. A server has many actors, so each request brings its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// A person at a host, a token, or a daemon.
    pub actor: String,
    /// The command line, or the route.
    pub command: String,
    pub reason: Option<String>,
    /// The actor agreed in advance to whatever the limits allow.
    pub yes: bool,
    /// The actor asked for no limits.
    pub force: bool,
}

impl Audit {
    /// A request without options.
    pub fn new(actor: impl Into<String>, command: impl Into<String>) -> Self {
        Self { actor: actor.into(), command: command.into(), reason: None, yes: false, force: false }
    }

    /// The options that every changing request has. A dry run is never written to the trail.
    pub(crate) fn flags(&self) -> Value {
        json!({"dry_run": false, "yes": self.yes, "force": self.force})
    }
}

impl ControlPlane {
    /// Begins an operation of the audit trail. It is written with the first change.
    pub(crate) fn operation(&self, audit: &Audit, filters: &impl Serialize, flags: &Value) -> Operation {
        Operation {
            op_id: self.store.new_operation_id(),
            at: self.store.now(),
            actor: audit.actor.clone(),
            command: audit.command.clone(),
            filters: serde_json::to_string(filters).unwrap_or_default(),
            flags: flags.to_string(),
            reason: audit.reason.clone(),
        }
    }
}
