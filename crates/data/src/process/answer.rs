//! What a handler found: a verdict and metrics, and how programs and servers write them.

use redrive_core::run::Verdict;
use redrive_core::text::{cut, one_line};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest answer that is read; all of its metrics are kept with the run.
pub(super) const MAX_BYTES: usize = 64 << 10;
const SHOWN_BYTES: usize = 200;

/// What an answer looks like, for messages.
const LIKE: &str = r#"{"verdict":"passed"}"#;

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// Kept with the run, beside its duration and the number of its attempts.
    pub metrics: Map<String, Value>,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, metrics: Map::new() }
    }
}

#[derive(Deserialize)]
struct Written {
    verdict: Option<Value>,
    metrics: Option<Value>,
}

impl Answer {
    /// Reads `{"verdict":"…","metrics":{…}}`; says otherwise what is wrong with the text, of which an excerpt may hold
    /// secrets. `place` names where the text stands, such as "the last line of its stdout".
    pub(super) fn read(text: &[u8], place: &str) -> Result<Self, String> {
        if text.trim_ascii().is_empty() {
            return Err(format!("{place} is empty, and no verdict; write {LIKE}"));
        }
        if text.len() > MAX_BYTES {
            return Err(format!("{place} is longer than 64 KiB; write fewer metrics"));
        }
        let shown = || cut(&one_line(&String::from_utf8_lossy(text)), SHOWN_BYTES);
        let Ok(Written { verdict, metrics }) = serde_json::from_slice(text) else {
            return Err(format!("{place} is no verdict: {}; write {LIKE}", shown()));
        };
        let verdict = match verdict {
            Some(Value::String(word)) => word.parse::<Verdict>().map_err(|why| format!("{place}: {why}"))?,
            Some(_) | None => return Err(format!("{place} names no verdict: {}; write {LIKE}", shown())),
        };
        let metrics = match metrics {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metrics)) => metrics,
            Some(_) => return Err(format!("{place}: metrics is no object; write {{\"name\":value}}")),
        };
        Ok(Self { verdict, metrics })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Answer, String> {
        Answer::read(text.as_bytes(), "its answer")
    }

    #[test]
    fn a_verdict_may_come_with_metrics_and_with_what_nobody_asked_for() {
        for (text, verdict, metrics) in [
            (r#"{"verdict":"passed"}"#, Verdict::Passed, 0),
            (r#" {"verdict":"needs_review","metrics":null,"note":"x"} "#, Verdict::NeedsReview, 0),
            (r#"{"metrics":{"frames":7},"verdict":"failed"}"#, Verdict::Failed, 1),
        ] {
            let answer = read(text).unwrap();
            assert_eq!((answer.verdict, answer.metrics.len()), (verdict, metrics), "{text}");
        }
    }

    #[test]
    fn what_is_no_verdict_is_said_and_shown() {
        for (text, why) in [
            ("", "its answer is empty, and no verdict; write {\"verdict\":\"passed\"}"),
            ("done\u{1b}[0m", "its answer is no verdict: done; write {\"verdict\":\"passed\"}"),
            ("[1]", "its answer is no verdict: [1]; write {\"verdict\":\"passed\"}"),
            ("{}", "its answer names no verdict: {}; write {\"verdict\":\"passed\"}"),
            ("{\"verdict\":7}", "its answer names no verdict: {\"verdict\":7}; write {\"verdict\":\"passed\"}"),
            (
                "{\"verdict\":\"ok\"}",
                "its answer: verdict \"ok\" is unknown; it is one of passed, needs_review, failed",
            ),
            ("{\"verdict\":\"passed\",\"metrics\":3}", "its answer: metrics is no object; write {\"name\":value}"),
        ] {
            assert_eq!(read(text).unwrap_err(), why, "{text}");
        }
        let long = format!(r#"{{"verdict":"passed","metrics":{{"x":"{}"}}}}"#, "x".repeat(MAX_BYTES));
        assert_eq!(read(&long).unwrap_err(), "its answer is longer than 64 KiB; write fewer metrics");
    }
}
