//! Cooldowns: whom a source asked to leave alone, and a person's word that it is over.

use redrive_core::id::OpId;
use redrive_core::key::{CustomerId, Source};
use redrive_store::Cooldown;
use serde_json::json;

use crate::error::Result;
use crate::plane::ControlPlane;

/// Whose cooldowns a person lifts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lift {
    pub source: Source,
    /// None means the source with all its customers.
    pub customer_id: Option<CustomerId>,
    pub command: String,
    pub reason: Option<String>,
}

impl ControlPlane {
    /// Ends cooldowns before their time; gives those that were in force.
    pub async fn lift(&self, lift: &Lift) -> Result<(OpId, Vec<Cooldown>)> {
        let filters = json!({"source": lift.source, "customer_id": lift.customer_id}).to_string();
        let operation = self.operation(&lift.command, filters, json!({"lift": true}).to_string(), lift.reason.clone());
        let lifted = self.store.lift_cooldowns(&operation, &lift.source, lift.customer_id.as_ref()).await?;
        Ok((operation.op_id, lifted))
    }
}
