//! Jobs that no worker will claim: their category is in no section of the configuration.

use std::time::Duration;

use redrive_store::View;

use super::Sections;
use crate::error::Result;
use crate::worker::Shutdown;

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(10);

/// Says in the log which categories have jobs queued that no section names: once, and again when they change.
#[derive(Debug)]
pub struct Unserved {
    view: View,
    sections: Sections,
    /// What the last warning named.
    reported: Vec<String>,
}

impl Unserved {
    pub fn new(view: View, sections: Sections) -> Self {
        Self { view, sections, reported: Vec::new() }
    }

    /// Looks now and then until a shutdown is requested.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            match self.look().await {
                Ok(Some(categories)) if categories.is_empty() => {
                    tracing::info!("every category that has jobs queued is in a process section now");
                }
                Ok(Some(categories)) => {
                    let todo = "name them in a [process.<name>] section";
                    tracing::warn!(?categories, "jobs wait whose category no process section names; {todo}");
                }
                Ok(None) => {}
                // The claims say it, too, and louder.
                Err(error) => tracing::debug!(%error, "could not look for categories that no section names"),
            }
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// The categories with jobs queued that no section names, if they are others than the last time.
    pub async fn look(&mut self) -> Result<Option<Vec<String>>> {
        let waiting = self.view.categories_waiting().await?.into_iter().map(|(category, _)| category);
        let unserved: Vec<String> = waiting.filter(|category| self.sections.of(category).is_none()).collect();
        if unserved == self.reported {
            return Ok(None);
        }
        self.reported.clone_from(&unserved);
        Ok(Some(unserved))
    }
}
