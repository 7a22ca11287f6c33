//! `runs explain`: why a run is not running now.

use redrive_control::Insight;
use redrive_control::runs::{RunAction, RunExplanation};

use super::find;
use crate::cli::RunArg;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

const NAMES: [&str; 13] = [
    "id",
    "workload",
    "category",
    "status",
    "state",
    "reason",
    "because",
    "next_retry_at",
    "retry_count",
    "max_attempts",
    "error_class",
    "error_message",
    "now",
];

pub async fn run(args: &RunArg, insight: &Insight, context: &Context) -> Result<Exit> {
    let Some(run) = find(&args.id, insight).await? else {
        output::nothing("no run found", &NAMES, &context.global)?;
        return Ok(Exit::NothingFound);
    };
    let mut explanation = insight.explain_run(&run).await?;
    explanation.because = because(&explanation);
    output::one(&NAMES, &explanation, &context.global, || {
        let RunExplanation { id, status, reason, because, .. } = &explanation;
        let mut text = vec![format!("{id} is {status}"), format!("{reason}: {because}")];
        if let (Some(class), Some(message)) = (explanation.error_class, &explanation.error_message) {
            text.push(format!("last error: {class}: {message}"));
        }
        output::lines(&text)
    })?;
    Ok(Exit::Done)
}

/// Why a run is not running, with the command that changes it.
fn because(explanation: &RunExplanation) -> String {
    let command = match explanation.action {
        None => return explanation.because.clone(),
        Some(RunAction::Retry) => "`redrive runs retry` starts a fresh count",
        Some(RunAction::Configure) => "add it to the categories of a [process] section",
        Some(RunAction::StartWorker) => {
            "`redrive worker` starts one; a section without command and url waits for outside workers"
        }
        Some(RunAction::ExplainPartition) => "`redrive state explain` says what becomes of the partition",
    };
    format!("{}; {command}", explanation.because)
}
