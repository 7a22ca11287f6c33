//! What the configuration says about uploads.

use std::time::Duration;

use redrive_core::retry::RetryPolicy;

/// The `[ingest]` section, as far as the control plane is concerned.
#[derive(Debug, Clone)]
pub struct UploadRules {
    pub retry: RetryPolicy,
    /// How long an upload that ended is kept; none means for ever.
    pub keep: Option<Duration>,
}

impl Default for UploadRules {
    fn default() -> Self {
        Self { retry: RetryPolicy::ingest(), keep: None }
    }
}
