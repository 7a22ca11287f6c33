//! Jobs that no worker will claim: their category is in no section of the configuration.

use std::time::Duration;

use redrive_core::count;
use redrive_store::View;

use super::Sections;
use crate::error::Result;
use crate::worker::Shutdown;

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(10);

/// How many categories are looked at beside those that are served. A submitter may give each job a category of its own.
const LOOKED_AT: u32 = 1000;
/// How many are named.
const NAMED: usize = 10;

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
                    let (categories, todo) = (in_words(&categories), "name them in a [process.<name>] section");
                    tracing::warn!(categories, "jobs wait whose category no process section names; {todo}");
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
        let served = count::of(self.sections.categories().count());
        let most = LOOKED_AT.saturating_add(u32::try_from(served).unwrap_or(u32::MAX));
        let mut unserved = self.view.categories_with_work(most).await?;
        unserved.retain(|category| self.sections.of(category).is_none());
        if unserved == self.reported {
            return Ok(None);
        }
        self.reported.clone_from(&unserved);
        Ok(Some(unserved))
    }
}

fn in_words(categories: &[String]) -> String {
    let mut named: Vec<String> = categories.iter().take(NAMED).map(|category| format!("{category:?}")).collect();
    match categories.len().saturating_sub(NAMED) {
        0 => {}
        more => named.push(format!("{more} more")),
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_categories_are_named_and_the_others_counted() {
        let categories: Vec<String> = (0..13).map(|nth| format!("c{nth}")).collect();
        assert_eq!(in_words(&categories[..2]), r#""c0", "c1""#);
        assert!(in_words(&categories).ends_with(r#""c9", 3 more"#), "{}", in_words(&categories));
    }
}
