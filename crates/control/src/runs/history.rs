//! What happened to a run, brought together.

use redrive_core::run::Run;

use crate::error::Result;
use crate::insight::Insight;
use crate::shape::RunEventShape;

impl Insight {
    /// The failed tries of a run, the deliveries of it that were lost and the results that came too late; the first one first.
    pub async fn run_history(&self, run: &Run) -> Result<Vec<RunEventShape>> {
        let failures = self.view().run_failures(run.run_id).await?;
        let incidents = self.view().run_incidents(run.run_id).await?;
        let mut events: Vec<RunEventShape> = failures.into_iter().map(RunEventShape::from).collect();
        events.extend(incidents.into_iter().map(RunEventShape::from));
        events.sort_by_key(|event| event.at);
        Ok(events)
    }
}
