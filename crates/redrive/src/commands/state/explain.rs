//! `state explain`: why a partition is not running now.

use redrive_control::Insight;
use redrive_core::text::one_line;

use super::{filter, words};
use crate::cli::{Format, KeyArgs};
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

/// What JSON and CSV call the columns.
fn names() -> Vec<&'static str> {
    let rest = [
        "status",
        "reason",
        "because",
        "next_retry_at",
        "attempt_count",
        "max_attempts",
        "error_class",
        "error_message",
        "now",
    ];
    [output::KEY.as_slice(), &rest].concat()
}

pub async fn run(args: &KeyArgs, insight: &Insight, context: &Context) -> Result<Exit> {
    let key = filter::key(args, insight)?;
    let mut explanation = insight.explain(&key).await?;
    explanation.because = words::because(&explanation);
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&explanation)?,
        Format::Csv => output::record(&names(), &explanation)?,
        Format::Table => {
            let status = explanation.status.map_or_else(|| "has no entry".to_owned(), |status| format!("is {status}"));
            output::line(&one_line(&format!("{key} {status}")))?;
            output::line(&one_line(&format!("{}: {}", explanation.reason, explanation.because)))?;
            if let (Some(class), Some(message)) = (explanation.error_class, &explanation.error_message) {
                output::line(&one_line(&format!("last error: {class}: {message}")))?;
            }
        }
    }
    Ok(if explanation.status.is_some() { Exit::Done } else { Exit::NothingFound })
}
