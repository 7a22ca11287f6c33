//! The overview as scripts have it: what needs a person, each with the command to type, and then how everything stands.

use std::time::Duration;

use redrive_core::key::Source;
use redrive_core::process::Kind;
use redrive_core::run::Incident;
use redrive_store::BOUND;

use super::attention::{Attention, Need, attention};
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Bounded, OverviewShape, TodoShape};

/// How far back it is looked for what went wrong on the way.
const LATELY: Duration = Duration::from_secs(3600);

impl Insight {
    /// Looks at everything, or at one source. `config` is the fingerprint of the configuration that is looked with.
    pub async fn overview(&self, source: Option<&Source>, config: &str) -> Result<OverviewShape> {
        let status = self.status(source, config).await?;
        let mut found = attention(&status);
        if source.is_none() {
            found.extend(self.incidents().await?);
        }
        Ok(OverviewShape { needs_attention: found.into_iter().map(TodoShape::from).collect(), status })
    }

    /// What went wrong between the server and outside workers lately.
    async fn incidents(&self) -> Result<Vec<Attention>> {
        let since = self.now().saturating_sub(LATELY);
        let most = u32::try_from(BOUND).unwrap_or(u32::MAX);
        let mut found = Vec::new();
        for incident in Incident::ALL.iter().copied() {
            let count = Bounded::new(self.view().count_incidents(incident, since, most).await?);
            if !count.is_zero() {
                found.push(Attention { need: Need::Incidents { incident }, count, since: Some(since) });
            }
        }
        Ok(found)
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
        // It only says what would be cancelled.
        Need::UnknownCategory { category } => format!("redrive runs cancel --category {} --dry-run", word(category)),
        Need::NoOutsideWorker { category, .. } => {
            format!("redrive runs list --category {} --state queued", word(category))
        }
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
        Need::Incidents { .. } => "redrive runs list --workload process".to_owned(),
        Need::DeadRuns { workload } => format!("redrive runs groups --workload {workload}"),
    }
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
