//! The overview as scripts have it: what needs a person, each with the command to type, and then how everything stands.

use redrive_core::key::Source;
use redrive_core::process::Kind;

use super::attention::{Attention, Need, attention};
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{OverviewShape, TodoShape};

impl Insight {
    /// Looks at everything, or at one source. `config` is the fingerprint of the configuration that is looked with.
    pub async fn overview(&self, source: Option<&Source>, config: &str) -> Result<OverviewShape> {
        let status = self.status(source, config).await?;
        Ok(OverviewShape { needs_attention: attention(&status).into_iter().map(TodoShape::from).collect(), status })
    }
}

impl From<Attention> for TodoShape {
    fn from(found: Attention) -> Self {
        Self { what: found.need.what(), command: command(&found.need), count: found.count, since: found.since }
    }
}

/// The command that meets a need.
fn command(need: &Need) -> String {
    match need {
        Need::NoWorker { has_workers: true, .. } => "redrive doctor".to_owned(),
        Need::NoWorker { has_workers: false, .. } => "redrive worker".to_owned(),
        Need::Breaker { source, customer: None, .. } => format!("redrive state hold lift --source {source}"),
        Need::Breaker { source, customer: Some(customer), .. } => {
            format!("redrive state hold lift --source {source} --customer-id {customer}")
        }
        Need::NoRunWorker { workload } => format!("redrive worker --workload {workload}"),
        Need::NoDaemon => "redrive daemon".to_owned(),
        Need::Silent { kind, .. } => match kind {
            Kind::Worker => "redrive worker".to_owned(),
            Kind::Daemon => "redrive daemon".to_owned(),
            Kind::Server => "redrive serve".to_owned(),
            Kind::Outside => "redrive doctor".to_owned(),
        },
        Need::NotClaiming { .. } => "redrive runs list --state queued".to_owned(),
        Need::Drift { pids, .. } => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("kill -HUP {}", pids.join(" "))
        }
        Need::Final { group, .. } => format!("redrive state retry --group {group}"),
        Need::Exhausted { group, .. } => format!("redrive state retry --group {group} --clear-terminal"),
        Need::DeadRuns { workload } => format!("redrive runs groups --workload {workload}"),
    }
}
