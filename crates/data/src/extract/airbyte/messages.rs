//! A source's messages: which of them matter, and what is kept of them.

use std::borrow::Cow;
use std::sync::Arc;

use redrive_core::text::{cut, one_line};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::catalog::StreamName;
use crate::extract::Failure;
use crate::extract::connector::MessageHandler;
use crate::settings::Redactor;

const TEXT_BYTES: usize = 1 << 10;
const EXCERPT_BYTES: usize = 80;

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    record: Option<Record<'a>>,
    #[serde(default)]
    state: Option<Value>,
    #[serde(default)]
    trace: Option<Value>,
    #[serde(default)]
    log: Option<Value>,
    #[serde(default)]
    catalog: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// How far a stream says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Started,
    Running,
    Complete,
    Incomplete,
}

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureType {
    Transient,
    Config,
    System,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TraceError {
    pub(super) failure_type: FailureType,
    pub(super) message: String,
    of_stream: bool,
}

/// A source that was told to slow down, and perhaps until when, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateLimit {
    pub(super) quota_reset: Option<f64>,
}

/// What the source counted itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Counted {
    Nothing,
    Records(f64),
    /// A STATE came without a count, so the sum means nothing.
    Partly,
}

/// What a source has said so far.
#[derive(Debug)]
pub(super) struct Source {
    /// None while it is asked for its catalog.
    pub(super) stream: Option<StreamName>,
    redactor: Arc<Redactor>,
    pub(super) records: u64,
    pub(super) counted: Counted,
    pub(super) status: Option<Status>,
    pub(super) error: Option<TraceError>,
    pub(super) rate_limit: Option<RateLimit>,
    /// The last thing it logged as an error.
    pub(super) complaint: Option<String>,
    pub(super) catalog: Option<Value>,
}

impl Source {
    pub(super) fn new(stream: Option<StreamName>, redactor: Arc<Redactor>) -> Self {
        Self {
            stream,
            redactor,
            records: 0,
            counted: Counted::Nothing,
            status: None,
            error: None,
            rate_limit: None,
            complaint: None,
            catalog: None,
        }
    }

    fn record(&mut self, record: &Record<'_>, records: &mut Vec<u8>) {
        if self.is_wanted(&record.stream, record.namespace.as_deref()) {
            self.records += 1;
            records.extend_from_slice(record.data.get().as_bytes());
            records.push(b'\n');
        }
    }

    /// A STATE may count the records since the one before.
    fn state(&mut self, state: &Value) {
        let other = state.pointer("/stream/stream_descriptor").is_some_and(|descriptor| !self.describes(descriptor));
        if other {
            return;
        }
        let count = state.pointer("/sourceStats/recordCount").and_then(Value::as_f64);
        self.counted = match (self.counted, count) {
            (Counted::Nothing, Some(count)) => Counted::Records(count),
            (Counted::Records(sum), Some(count)) => Counted::Records(sum + count),
            (Counted::Partly, _) | (_, None) => Counted::Partly,
        };
    }

    fn trace(&mut self, trace: &Value) {
        match trace.get("type").and_then(Value::as_str) {
            Some("STREAM_STATUS") => {
                if let Some(status) = trace.get("stream_status") {
                    self.stream_status(status);
                }
            }
            Some("ERROR") => {
                let error = self.trace_error(trace.get("error").unwrap_or(&Value::Null));
                // The first one is the cause, unless it is about something else; the last is often a summary of them.
                if self.error.as_ref().is_none_or(|before| !before.of_stream && error.of_stream) {
                    self.error = Some(error);
                }
            }
            Some(_) | None => {}
        }
    }

    fn stream_status(&mut self, status: &Value) {
        if !status.get("stream_descriptor").is_some_and(|descriptor| self.describes(descriptor)) {
            return;
        }
        self.status = match status.get("status").and_then(Value::as_str) {
            Some("STARTED") => Some(Status::Started),
            Some("RUNNING") => Some(Status::Running),
            Some("COMPLETE") => Some(Status::Complete),
            Some("INCOMPLETE") => Some(Status::Incomplete),
            Some(_) | None => self.status,
        };
        for reason in status.get("reasons").and_then(Value::as_array).into_iter().flatten() {
            if reason.get("type").and_then(Value::as_str) == Some("RATE_LIMITED") {
                let quota_reset = reason.pointer("/rate_limited/quota_reset").and_then(Value::as_f64);
                self.rate_limit = Some(RateLimit { quota_reset });
            }
        }
    }

    fn trace_error(&self, error: &Value) -> TraceError {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        // Before its lines are run together: a secret may have several.
        let shown = |key: &str| Some(one_line(&self.redactor.redact(text(key)))).filter(|text| !text.is_empty());
        let message = match (shown("message"), shown("internal_message")) {
            (Some(message), Some(internal)) if !message.contains(&internal) => format!("{message} ({internal})"),
            (Some(message), _) | (None, Some(message)) => message,
            (None, None) => "the source gave no message".to_owned(),
        };
        let failure_type = match text("failure_type") {
            "config_error" => FailureType::Config,
            "transient_error" => FailureType::Transient,
            _ => FailureType::System,
        };
        let of_stream = error.get("stream_descriptor").is_some_and(|descriptor| self.describes(descriptor));
        TraceError { failure_type, message: cut(&message, TEXT_BYTES), of_stream }
    }

    fn log(&mut self, log: &Value) {
        let text = |key: &str| log.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = cut(&one_line(text("message").lines().next().unwrap_or_default()), TEXT_BYTES);
        tracing::debug!(level = text("level"), "{}", self.redactor.redact(&message));
        if matches!(text("level"), "FATAL" | "ERROR") && !message.is_empty() {
            self.complaint = Some(message);
        }
    }

    /// Logs a line that is no message. It is an error only where the line was to be a record.
    fn log_noise(&self, number: u64, line: &[u8]) -> Result<(), Failure> {
        let noise = cut(&one_line(&String::from_utf8_lossy(line)), EXCERPT_BYTES);
        if line.starts_with(b"{") && memchr::memmem::find(line, b"\"RECORD\"").is_some() {
            return Err(Failure::retryable(format!("line {number} of the output is a broken RECORD: {noise:?}")));
        }
        tracing::debug!("{}", self.redactor.redact(&noise));
        Ok(())
    }

    fn describes(&self, descriptor: &Value) -> bool {
        let text = |key: &str| descriptor.get(key).and_then(Value::as_str);
        self.is_wanted(text("name").unwrap_or_default(), text("namespace"))
    }

    fn is_wanted(&self, name: &str, namespace: Option<&str>) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is(name, namespace))
    }
}

impl MessageHandler for Source {
    fn line(&mut self, number: u64, line: &[u8], records: &mut Vec<u8>) -> Result<(), Failure> {
        // A list would be taken for an object's values.
        let message: Option<Message<'_>> = line.starts_with(b"{").then(|| serde_json::from_slice(line).ok()).flatten();
        let Some(message) = message else { return self.log_noise(number, line) };
        match (&*message.kind, message.record) {
            ("RECORD", Some(record)) => self.record(&record, records),
            ("RECORD", None) => return self.log_noise(number, line),
            ("STATE", _) => message.state.iter().for_each(|state| self.state(state)),
            ("TRACE", _) => message.trace.iter().for_each(|trace| self.trace(trace)),
            ("LOG", _) => message.log.iter().for_each(|log| self.log(log)),
            ("CATALOG", _) => self.catalog = message.catalog,
            _ => {}
        }
        Ok(())
    }
}
