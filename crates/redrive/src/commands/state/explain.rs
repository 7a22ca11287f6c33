//! `state explain`: why a partition is not running now.

use redrive_control::Insight;

use super::{filter, words};
use crate::cli::KeyArgs;
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
        "granted",
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
    output::one(&names(), &explanation, &context.global, || {
        let status = explanation.status.map_or_else(|| "has no entry".to_owned(), |status| format!("is {status}"));
        let mut text = vec![format!("{key} {status}")];
        text.push(format!("{}: {}", explanation.reason, explanation.because));
        if let (Some(class), Some(message)) = (explanation.error_class, &explanation.error_message) {
            text.push(format!("last error: {class}: {message}"));
        }
        output::lines(&text)
    })?;
    Ok(if explanation.status.is_some() { Exit::Done } else { Exit::NothingFound })
}
