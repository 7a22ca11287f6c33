//! Recording verdicts, each once: partition, run and history in one transaction, under the attempt's fence. Attempts that
//! are judged at about the same time share a transaction.

use redrive_core::failure::clean_message;
use redrive_core::partition::Judgement;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{self, Run};
use redrive_store::{JudgedAttempt, Recorded, Verdicts};

use crate::error::Result;
use crate::worker::Completer;

/// The most verdicts in one transaction.
const RECORDED_AT_ONCE: usize = 256;

/// Records the judgements of many attempts.
#[derive(Debug, Clone)]
pub struct Recorder {
    verdicts: Verdicts,
    completer: Completer<JudgedAttempt, Recorded>,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Recorded(Judgement),
    /// The attempt is no longer the one that counts; nothing was changed.
    Refused(Refused),
}

impl Recorder {
    /// Starts the task that commits; must be called on a runtime.
    pub fn start(verdicts: Verdicts) -> Self {
        let committing = verdicts.clone();
        let completer = Completer::start(RECORDED_AT_ONCE, move |judged| {
            let verdicts = committing.clone();
            Box::pin(async move { verdicts.judge_many(&judged).await })
        });
        Self { verdicts, completer }
    }

    /// Records a judgement. While the database is out of reach it is asked again; the caller, who knows how long the
    /// lease lasts, drops the future when there is no more point.
    pub async fn record(&self, judged: JudgedAttempt) -> Result<Verdict> {
        let (run, judgement) = (judged.claimed.run.clone(), judged.judgement.clone());
        match self.completer.complete(judged).await? {
            Recorded::As(_) => Ok(Verdict::Recorded(judgement)),
            Recorded::Refused(refused) => self.refused(&run, judgement, refused).await,
            Recorded::Lost => self.refused(&run, judgement, Refused::Rule(Reason::StaleFence)).await,
        }
    }

    /// A refusal may be the answer to a repeated call whose first answer was lost: then the verdict stands.
    async fn refused(&self, run: &Run, judgement: Judgement, refused: Refused) -> Result<Verdict> {
        let stored = self.verdicts.view().run(run.run_id).await?;
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
