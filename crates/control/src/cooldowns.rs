//! Cooldowns: sources that asked to be left alone, and an operator's word that it is over.

use redrive_core::id::OpId;
use redrive_core::key::{CustomerId, Source};
use redrive_store::Cooldown;
use serde_json::json;

use crate::audit::Audit;
use crate::error::Result;
use crate::plane::ControlPlane;

/// Whose cooldowns an operator lifts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lift {
    pub source: Source,
    /// None means the source with all its customers.
    pub customer_id: Option<CustomerId>,
}

impl ControlPlane {
    /// Ends cooldowns before their time; gives those that were in force.
    pub async fn lift(&self, lift: &Lift, audit: &Audit) -> Result<(OpId, Vec<Cooldown>)> {
        let filters = json!({"source": lift.source, "customer_id": lift.customer_id});
        let operation = self.operation(audit, &filters, &json!({"lift": true}));
        let lifted = self.store.lift_cooldowns(&operation, &lift.source, lift.customer_id.as_ref()).await?;
        Ok((operation.op_id, lifted))
    }
}
