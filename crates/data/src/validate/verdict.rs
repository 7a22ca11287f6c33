//! Recording a verdict, once: partition, run and history in one transaction, under the attempt's fence.

use redrive_core::failure::clean_message;
use redrive_core::partition::Judgement;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{self, Run};
use redrive_store::raw::RawView;
use redrive_store::{DataStore, Recorded};

use super::{Rules, Submission, judge};
use crate::error::{Result, TRY_AGAIN};

#[derive(Debug, Clone)]
pub struct Validator {
    data: DataStore,
    raw: RawView,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Recorded(Judgement),
    /// The attempt is no longer the one that counts; nothing was changed.
    Refused(Refused),
}

impl Validator {
    pub fn new(data: DataStore, raw: RawView) -> Self {
        Self { data, raw }
    }

    /// Judges what an attempt left in the sink. Records nothing.
    pub async fn judge(&self, rules: &Rules, submission: &Submission) -> Result<Judgement> {
        judge(&self.raw, rules, submission).await
    }

    /// Records the judgement of a run. While the database is out of reach it is asked again; the caller, who knows how
    /// long the lease lasts, drops the future when there is no more point.
    pub async fn record(&self, run: &Run, judgement: Judgement, metrics: &str) -> Result<Verdict> {
        loop {
            match self.data.judge(run, judgement.clone(), Some(metrics.to_owned())).await {
                Ok(Recorded::As(_)) => return Ok(Verdict::Recorded(judgement)),
                Ok(Recorded::Refused(refused)) => return self.refused(run, judgement, refused).await,
                Ok(Recorded::Lost) => return Ok(Verdict::Refused(Refused::Rule(Reason::StaleFence))),
                Err(error) if error.is_transient() => {
                    tracing::warn!(run_id = %run.run_id, %error, "the verdict could not be recorded; trying again");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A refusal may be the answer to a repeated call whose first answer was lost: then the verdict stands.
    async fn refused(&self, run: &Run, judgement: Judgement, refused: Refused) -> Result<Verdict> {
        let stored = self.data.view().run(run.run_id).await?;
        let stands = stored.is_some_and(|stored| stored.task_id == run.task_id && says(&stored, &judgement));
        Ok(if stands { Verdict::Recorded(judgement) } else { Verdict::Refused(refused) })
    }
}

/// Whether a run ended as this judgement has it.
fn says(run: &Run, judgement: &Judgement) -> bool {
    match judgement {
        Judgement::Accepted { .. } => run.verdict == Some(run::Verdict::Passed),
        Judgement::Rejected { message, .. } => {
            run.verdict == Some(run::Verdict::Failed) && run.error_message == Some(clean_message(message))
        }
    }
}
