//! The overview as scripts have it: what needs a person, each with the command to type, and then how everything stands.

use std::time::Duration;

use redrive_core::key::Source;
use redrive_core::run::Incident;
use redrive_store::BOUND;

use super::attention::{Attention, Need, attention};
use super::remedy::RemedyWords;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Bounded, OverviewShape, TodoShape};

/// How far back it is looked for what went wrong on the way.
const LATELY: Duration = Duration::from_secs(3600);

impl Insight {
    /// Looks at everything, or at one source. `config` is the fingerprint of the configuration that is looked with, `words`
    /// says what to type.
    pub async fn overview(&self, source: Option<&Source>, config: &str, words: RemedyWords) -> Result<OverviewShape> {
        let status = self.status(source, config).await?;
        let mut found = attention(&status);
        if source.is_none() {
            found.extend(self.incidents().await?);
        }
        let needs_attention = found.iter().map(|found| TodoShape::new(found, words)).collect();
        Ok(OverviewShape { needs_attention, status })
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

impl TodoShape {
    fn new(found: &Attention, words: RemedyWords) -> Self {
        Self { what: found.need.what(), command: words(&found.need.remedy()), count: found.count, since: found.since }
    }
}
