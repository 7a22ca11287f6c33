//! What happened to a run: failed tries, deliveries that were lost, results that came too late.

use redrive_core::failure::ErrorClass;
use redrive_core::run::Incident;
use redrive_core::time::Timestamp;
use redrive_store::{PastFailure, PastIncident};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunEventShape {
    pub at: Timestamp,
    pub event: RunEvent,
    pub worker: Option<String>,
    /// Of a failed try.
    pub attempt: Option<u32>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    /// How long the next try waits, in seconds; none where there is none.
    pub delay_s: Option<f64>,
    /// What a worker reported too late.
    pub said: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// A try failed.
    Failed,
    /// A claim was sent to an outside worker that did not speak in time; nothing was tried.
    DeliveryLost,
    /// A result came when the run was no longer its worker's; nothing was changed.
    Late,
}

impl RunEvent {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::DeliveryLost => "delivery_lost",
            Self::Late => "late",
        }
    }
}

impl From<PastFailure> for RunEventShape {
    fn from(failure: PastFailure) -> Self {
        let PastFailure { attempt, record, .. } = failure;
        Self {
            at: record.at,
            event: RunEvent::Failed,
            worker: record.worker,
            attempt: Some(attempt),
            error_class: Some(record.class),
            error_message: Some(record.message),
            delay_s: record.delay.map(|delay| delay.as_secs_f64()),
            said: None,
        }
    }
}

impl From<PastIncident> for RunEventShape {
    fn from(incident: PastIncident) -> Self {
        let event = match incident.incident {
            Incident::DeliveryLost => RunEvent::DeliveryLost,
            Incident::Late => RunEvent::Late,
        };
        Self {
            at: incident.at,
            event,
            worker: incident.worker,
            attempt: None,
            error_class: None,
            error_message: None,
            delay_s: None,
            said: incident.detail.and_then(|said| serde_json::from_str(&said).ok()),
        }
    }
}
