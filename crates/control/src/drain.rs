//! Outside workers that are asked to take on nothing more.

use serde_json::json;

use crate::audit::Audit;
use crate::error::Result;
use crate::plane::ControlPlane;

impl ControlPlane {
    /// Asks an outside worker to take on nothing more, or to go on: every answer to it says so. Says whether there is such a worker.
    pub async fn drain_worker(&self, worker: &str, drain: bool, audit: &Audit) -> Result<bool> {
        let operation = self.operation(audit, &json!({"worker": worker}), &json!({"drain": drain}));
        Ok(self.store.drain_worker(&operation, worker, drain).await?)
    }
}
