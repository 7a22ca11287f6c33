//! Whether a source did what it was asked to: its exit code, its errors, its statuses and its counts together.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::time::{Timestamp, whole_micros};

use super::messages::{Counted, FailureType, RateLimit, Source, Status};
use crate::extract::Failure;
use crate::program::End;

/// What the exit alone says; sources complain in their log, and seldom on stderr.
pub(super) fn of_exit(end: &End, source: &Source) -> Option<Failure> {
    if end.is_success() {
        return None;
    }
    let failure = end.failure();
    match &source.complaint {
        Some(complaint) if end.is_silent() => Some(Failure { message: end.with(complaint), ..failure }),
        Some(_) | None => Some(failure),
    }
}

/// Whether the stream was read whole.
pub(super) fn of_read(
    source: &Source,
    exit: Option<Failure>,
    require_status: bool,
    now: Timestamp,
) -> Result<(), Failure> {
    let failure = of_failure(source, exit, now);
    match failure.or_else(|| incomplete(source, require_status).map(|failure| unless_limited(source, failure, now))) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// What the source says went wrong; without a word from it, what its exit says.
pub(super) fn of_failure(source: &Source, exit: Option<Failure>, now: Timestamp) -> Option<Failure> {
    let reported = source.error.as_ref().map(|error| match error.failure_type {
        FailureType::Config => Failure::fatal(&error.message),
        FailureType::Transient | FailureType::System => Failure::retryable(&error.message),
    });
    reported.or(exit).map(|failure| unless_limited(source, failure, now))
}

fn incomplete(source: &Source, require_status: bool) -> Option<Failure> {
    let name = source.stream.as_ref().map(super::catalog::StreamName::full).unwrap_or_default();
    match (source.status, require_status) {
        (Some(Status::Complete), _) | (None, false) => miscounted(source),
        (Some(Status::Incomplete), _) => {
            Some(Failure::retryable(format!("the source says that stream {name} is INCOMPLETE, with exit code 0")))
        }
        (Some(Status::Started | Status::Running), _) => Some(Failure::retryable(format!(
            "the source ended with exit code 0, but never said that stream {name} is COMPLETE"
        ))),
        (None, true) => Some(Failure::fatal(format!(
            "the source said nothing about the status of stream {name}; if it is too old to, set require_status = false"
        ))),
    }
}

fn miscounted(source: &Source) -> Option<Failure> {
    let arrived = source.records;
    match source.counted {
        // No source sends so many records that the nearest such number is another one.
        #[expect(clippy::float_cmp, reason = "counts are whole numbers")]
        Counted::Records(counted) if counted != arrived as f64 => {
            Some(Failure::retryable(format!("the source counted {counted} records, and {arrived} arrived")))
        }
        Counted::Records(_) | Counted::Nothing | Counted::Partly => None,
    }
}

/// A source that was told to slow down and then failed, failed for that; except where trying again cannot help, or the
/// time has passed already.
fn unless_limited(source: &Source, failure: Failure, now: Timestamp) -> Failure {
    match (failure.class, source.rate_limit.and_then(|limit| wait(limit, now))) {
        (ErrorClass::Retryable, Some(retry_after)) => Failure::rate_limited(failure.message, retry_after),
        (ErrorClass::Retryable | ErrorClass::Final | ErrorClass::RateLimited, _) => failure,
    }
}

/// How long the limit still holds, where that is known; none when it is over.
fn wait(limit: RateLimit, now: Timestamp) -> Option<Option<Duration>> {
    let reset = limit.quota_reset.and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
    let Some(reset) = reset else { return Some(None) };
    let left = Timestamp::from_micros(whole_micros(reset)).since(now);
    (!left.is_zero()).then_some(Some(left))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalog::StreamName;
    use super::*;
    use crate::extract::connector::MessageReader;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);

    fn stream() -> StreamName {
        let catalog = serde_json::json!({ "streams": [{ "name": "s" }] });
        super::super::catalog::configure(&catalog, "s").unwrap().0
    }

    fn source(lines: &[&str]) -> Source {
        let mut messages = MessageReader::new(Source::new(Some(stream()), Arc::default()));
        messages.take(lines.join("\n").as_bytes()).unwrap();
        messages.into_handler()
    }

    fn verdict(lines: &[&str]) -> Result<(), Failure> {
        of_read(&source(lines), None, true, NOW)
    }

    const RECORD: &str = r#"{"type":"RECORD","record":{"stream":"s","data":{"a":1.50},"emitted_at":1.5}}"#;
    const COMPLETE: &str = r#"{"type":"TRACE","trace":{"type":"STREAM_STATUS","stream_status":{"stream_descriptor":{"name":"s"},"status":"COMPLETE"}}}"#;

    fn status(status: &str, reasons: &str) -> String {
        COMPLETE.replace("\"COMPLETE\"", &format!("\"{status}\",\"reasons\":[{reasons}]"))
    }

    fn state(stream: &str, count: &str) -> String {
        format!(
            r#"{{"type":"STATE","state":{{"type":"STREAM","stream":{{"stream_descriptor":{{"name":"{stream}"}}}},"sourceStats":{{"recordCount":{count}}}}}}}"#
        )
    }

    fn error(kind: &str, descriptor: &str) -> String {
        format!(
            r#"{{"type":"TRACE","trace":{{"type":"ERROR","error":{{"message":"{kind} happened","failure_type":"{kind}"{descriptor}}}}}}}"#
        )
    }

    #[test]
    fn success_needs_the_status_and_the_count() {
        assert_eq!(verdict(&[RECORD, RECORD, &state("s", "2.0"), COMPLETE]), Ok(()));
        assert_eq!(verdict(&[RECORD, &state("s", "1"), RECORD, &state("s", "1.0"), COMPLETE]), Ok(()));
        assert_eq!(verdict(&[RECORD, &state("other", "7"), COMPLETE]), Ok(()));
        let short = verdict(&[RECORD, &state("s", "2"), COMPLETE]).unwrap_err();
        assert_eq!(short, Failure::retryable("the source counted 2 records, and 1 arrived"));
        for last in ["STARTED", "RUNNING", "INCOMPLETE"] {
            let failure = verdict(&[RECORD, &status(last, "")]).unwrap_err();
            assert_eq!(failure.class, ErrorClass::Retryable, "{last}");
        }
        assert!(verdict(&[RECORD, COMPLETE, &status("INCOMPLETE", "")]).is_err());
    }

    #[test]
    fn a_source_that_gives_no_status_needs_leave_to() {
        let silent = source(&[RECORD]);
        let refused = of_read(&silent, None, true, NOW).unwrap_err();
        assert!(refused.message.ends_with("set require_status = false"), "{refused}");
        assert_eq!(of_read(&silent, None, false, NOW), Ok(()));
        let half = source(&[RECORD, &status("INCOMPLETE", "")]);
        assert!(of_read(&half, None, false, NOW).is_err());
        let miscounted = source(&[RECORD, &state("s", "9")]);
        assert!(of_read(&miscounted, None, false, NOW).is_err());
    }

    #[test]
    fn errors_are_classed_by_who_can_mend_them() {
        for (kind, class) in [
            ("transient_error", ErrorClass::Retryable),
            ("system_error", ErrorClass::Retryable),
            ("config_error", ErrorClass::Final),
            ("new_error", ErrorClass::Retryable),
        ] {
            let failure = verdict(&[RECORD, &error(kind, ""), COMPLETE]).unwrap_err();
            assert_eq!(failure, Failure::new(class, format!("{kind} happened")));
        }
    }

    #[test]
    fn the_error_of_the_stream_counts_before_the_summary() {
        let of_stream = error("transient_error", r#","stream_descriptor":{"name":"s"}"#);
        for order in [[&of_stream, &error("config_error", "")], [&error("config_error", ""), &of_stream]] {
            let failure = verdict(&[order[0], order[1]]).unwrap_err();
            assert_eq!(failure, Failure::retryable("transient_error happened"));
        }
    }

    #[test]
    fn a_source_that_was_told_to_slow_down_and_failed_is_rate_limited_until_its_reset() {
        let limited = |reset: &str| {
            status("RUNNING", &format!(r#"{{"type":"RATE_LIMITED","rate_limited":{{"quota_reset":{reset}}}}}"#))
        };
        let until = |reset: &str, then: &[&str]| {
            let mut lines = vec![limited(reset)];
            lines.extend(then.iter().map(|line| (*line).to_owned()));
            verdict(&lines.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let transient = error("transient_error", "");
        let failure = until("1000000090000.0", &[&transient]).unwrap_err();
        assert_eq!(failure, Failure::rate_limited("transient_error happened", Some(Duration::from_secs(90))));
        assert_eq!(until("null", &[&transient]).unwrap_err().class, ErrorClass::RateLimited);
        assert_eq!(until("1000000090000", &[]).unwrap_err().class, ErrorClass::RateLimited);
        assert_eq!(until("999999990000", &[&transient]).unwrap_err().class, ErrorClass::Retryable, "over by now");
        assert_eq!(until("1000000090000", &[&error("config_error", "")]).unwrap_err().class, ErrorClass::Final);
        assert_eq!(until("1000000090000", &[RECORD, COMPLETE]), Ok(()), "it waited, and succeeded");
    }

    #[test]
    fn records_are_kept_as_they_stand_and_talk_is_none_of_them() {
        let lines =
            ["starting…", "[1]", "{\"level\":\"info\"}", RECORD, &RECORD.replace("\"s\"", "\"t\""), "{}", COMPLETE];
        let mut messages = MessageReader::new(Source::new(Some(stream()), Arc::default()));
        assert_eq!(messages.take(lines.join("\n").as_bytes()).unwrap(), b"{\"a\":1.50}\n");
    }

    #[test]
    fn a_record_that_is_broken_is_no_talk() {
        for broken in [&RECORD[..60], r#"{"type":"RECORD"}"#, r#"{"type":"RECORD","record":{"stream":"s"}}"#] {
            let mut messages = MessageReader::new(Source::new(Some(stream()), Arc::default()));
            let failure = messages.take(broken.as_bytes()).unwrap_err();
            assert!(failure.message.starts_with("line 1 of the output is a broken RECORD"), "{failure}");
        }
    }
}
