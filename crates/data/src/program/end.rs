//! How a program ended, and what that means: its own report, or otherwise its exit code.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use redrive_core::classify;
use redrive_core::failure::ErrorClass;
use redrive_core::text::{cut, one_line};
use serde_json::Value;

use super::stderr::Tail;
use crate::failure::{Failure, Scope, span};

/// The lines of stderr that go into a message, and its bytes.
const LINES: usize = 3;
const MESSAGE_BYTES: usize = 2 << 10;
const ODD_BYTES: usize = 40;

#[derive(Debug)]
pub(crate) struct End {
    pub(super) program: String,
    pub(super) status: ExitStatus,
    pub(super) stderr: Tail,
    /// It exited while something that it started still held its output.
    pub(super) incomplete: bool,
}

/// A last line on stderr that says exactly what went wrong.
#[derive(Debug, PartialEq)]
struct Report {
    class: ErrorClass,
    retry_after: Option<Duration>,
    /// What stands where the time to wait should, and is none. Not yet fit to be shown.
    odd_wait: Option<String>,
    /// Not yet fit to be shown.
    message: Option<String>,
    scope: Scope,
}

impl End {
    pub(crate) fn is_success(&self) -> bool {
        self.status.success() && !self.incomplete
    }

    /// The exit code, or none when a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The last line of stderr that holds a pattern which was watched for.
    pub(crate) fn line_with(&self, pattern: &str) -> Option<&str> {
        self.stderr.line_with(pattern)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.stderr.last_line().is_none()
    }

    /// What the end means when it is a failure.
    pub(crate) fn failure(&self) -> Failure {
        if self.status.success() {
            let why = "something that it started still held its output; let it wait for all its processes";
            return Failure::retryable(self.with(why));
        }
        let Some(report) = self.stderr.last_line().as_deref().and_then(Report::read) else {
            return Failure::new(self.class(), self.describe());
        };
        let shown = |text: &str, bytes| cut(&one_line(&self.stderr.redact(text)), bytes);
        let mut message = match &report.message {
            Some(message) => shown(message, MESSAGE_BYTES),
            None => self.with("it gave no message"),
        };
        if let Some(odd) = &report.odd_wait {
            message = format!("{message} (its retry_after, {}, is no number of seconds)", shown(odd, ODD_BYTES));
        }
        let failure = Failure::new(report.class, message).after(report.retry_after);
        match report.scope {
            Scope::Customer => failure,
            Scope::Source => failure.of_source(),
        }
    }

    /// How it ended and the last lines that it wrote.
    pub(crate) fn describe(&self) -> String {
        match last_lines(&self.stderr) {
            Some(lines) => self.with(&lines),
            None => self.with("it said nothing on stderr"),
        }
    }

    /// How it ended, with that after it.
    pub(crate) fn with(&self, why: &str) -> String {
        let text = format!("{} {}: {why}", self.program, ended(self.status));
        cut(&self.stderr.redact(&text), MESSAGE_BYTES)
    }

    pub(crate) fn class(&self) -> ErrorClass {
        self.code().map_or(ErrorClass::Retryable, classify::exit_code)
    }
}

/// The last lines, as they go into a message; none when there are none.
pub(super) fn last_lines(stderr: &Tail) -> Option<String> {
    let mut lines = stderr.lines_from_last();
    lines.truncate(LINES);
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join(" | "))
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(_)) => format!("was ended by {}", status.to_string().replace("signal: ", "signal ")),
        (None, None) => format!("ended with {status}"),
    }
}

impl Report {
    /// None when the line is something else, or its class is not known: then the exit code decides.
    fn read(line: &str) -> Option<Self> {
        let report: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
        let text = |name: &str| report.get(name).and_then(Value::as_str);
        let wait = report.get("retry_after").filter(|wait| !wait.is_null());
        let seconds = wait.and_then(|wait| wait.as_f64().or_else(|| wait.as_str()?.trim().parse().ok()));
        let retry_after = seconds.and_then(span);
        Some(Self {
            class: text("error_class")?.parse().ok()?,
            retry_after,
            odd_wait: wait.filter(|_| retry_after.is_none()).map(Value::to_string),
            message: text("message").filter(|message| !one_line(message).is_empty()).map(str::to_owned),
            scope: if text("scope") == Some("source") { Scope::Source } else { Scope::Customer },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_it_exactly() {
        let line =
            r#"{"error_class":"rate_limited","retry_after":1.5,"message":"slow \u001b[1mdown","scope":"source"}"#;
        let report = Report {
            class: ErrorClass::RateLimited,
            retry_after: Some(Duration::from_millis(1500)),
            odd_wait: None,
            message: Some("slow \u{1b}[1mdown".to_owned()),
            scope: Scope::Source,
        };
        assert_eq!(Report::read(line), Some(report));
    }

    #[test]
    fn what_is_no_report_or_has_no_known_class_is_none() {
        for line in ["", "boom", "[]", "{}", r#"{"error_class":"fatal"}"#, r#"{"error_class":7}"#, r#"{"error_class":"#]
        {
            assert_eq!(Report::read(line), None, "{line}");
        }
    }

    #[test]
    fn a_time_to_wait_may_be_a_text_and_what_is_none_is_told() {
        let waits = |wait: &str| {
            let line = format!(r#"{{"error_class":"rate_limited","retry_after":{wait}}}"#);
            let report = Report::read(&line).unwrap();
            (report.retry_after.map(|wait| wait.as_secs()), report.odd_wait)
        };
        for (wait, seconds) in [("30", 30), ("\"30\"", 30), ("\" 30.5 \"", 30), ("0", 0), ("1e300", u64::MAX)] {
            assert_eq!(waits(wait), (Some(seconds), None), "{wait}");
        }
        for odd in ["-1", "\"soon\"", "\"-1\"", "\"NaN\"", "true", "[30]"] {
            assert_eq!(waits(odd), (None, Some(odd.to_owned())), "{odd}");
        }
        assert_eq!(waits("null"), (None, None));
    }
}
