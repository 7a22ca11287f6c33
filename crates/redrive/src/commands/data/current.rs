//! What consumers can read, by flags; and why there is nothing to read.

use redrive_control::Insight;
use redrive_core::filter::Filter;
use redrive_core::partition::{Partition, Status};
use redrive_core::text::one_line;

use crate::cli::FilterArgs;
use crate::commands::Context;
use crate::commands::state::filter;
use crate::error::{Error, Result};

pub struct CurrentRuns {
    pub(super) insight: Insight,
    runs: redrive_store::CurrentRuns,
}

impl CurrentRuns {
    pub async fn open(context: &Context) -> Result<Self> {
        let config = context.config()?;
        let insight = context.insight(&config).await?;
        let runs = insight.current_runs().await?;
        Ok(Self { insight, runs })
    }

    pub async fn filter(&self, args: &FilterArgs, quiet: bool) -> Result<Filter> {
        let filter = filter::resolve(args, &self.insight, quiet).await?;
        let other = match filter.status {
            Some(Status::Pending | Status::Failed) => Some("--status"),
            Some(Status::Success) | None => match (filter.error_class, filter.group) {
                (Some(_), _) => Some("--error-class"),
                (None, Some(_)) => Some("--group"),
                (None, None) => None,
            },
        };
        match other {
            Some(flag) => Err(Error::Usage(format!(
                "{flag} asks for what is no success, and only successes have data; see `redrive state inspect`"
            ))),
            None => Ok(filter),
        }
    }

    /// Reads the current runs.
    pub fn runs(&self) -> &redrive_store::CurrentRuns {
        &self.runs
    }

    /// Says why there is nothing to read, and what to do about it.
    pub async fn explain_absence(&self, filter: &Filter) -> Error {
        let Some(key) = filter.as_key() else {
            return Error::NothingFound("nothing found: no partition of this filter is a success".to_owned());
        };
        match self.insight.view().partition(&key).await {
            Ok(Some(partition)) => Error::NothingFound(format!("{key} has no data: {}", self.why(&partition))),
            Ok(None) => {
                let todo = "`redrive state backfill enqueue` wants it";
                Error::NothingFound(format!("{key} has no data: no entry found; {todo}"))
            }
            Err(error) => error.into(),
        }
    }

    fn why(&self, partition: &Partition) -> String {
        let Partition { state, control } = partition;
        let message = one_line(state.error_message.as_deref().unwrap_or("no message"));
        match state.status {
            Status::Pending if control.active.is_some() => "it is being extracted now; try again later".to_owned(),
            Status::Pending if state.current_run_id.is_some() => {
                "it was set to pending, and no new run has been accepted yet; `redrive state explain` says when"
                    .to_owned()
            }
            Status::Pending => {
                "it is pending, and no run has been accepted yet; `redrive state explain` says when".to_owned()
            }
            Status::Failed if self.insight.terminal(partition).is_some() => {
                format!("it failed for good ({message}); `redrive state retry --clear-terminal` tries it again")
            }
            Status::Failed => format!("it failed ({message}); `redrive state retry` tries it again"),
            // It became one between the two looks.
            Status::Success => "it has just become a success; try again".to_owned(),
        }
    }
}
