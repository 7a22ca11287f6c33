//! Whether the database and the raw sink answer, and what consumers may read of them.

use redrive_store::CurrentRuns;

use crate::error::Result;
use crate::insight::Insight;

impl Insight {
    /// Asks the database for its sink, and the sink for its marker. A database that has none yet has never written to a sink.
    pub async fn check_ready(&self) -> Result<()> {
        let Some(known) = self.view().raw_sink().await? else { return Ok(()) };
        self.raw.view(self.view()).await?.check_marker(known).await?;
        Ok(())
    }

    /// The current runs of successes, to be read.
    pub async fn current_runs(&self) -> Result<CurrentRuns> {
        Ok(CurrentRuns { view: self.view().clone(), raw: self.raw.view(self.view()).await?.clone() })
    }
}
