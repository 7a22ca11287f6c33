//! What a partition's change looked like before and after, as the trail keeps it: JSON, with moments as integers.
//!
//! A bulk change writes two of these for every partition, so they are put together by hand. They are read back by serde.

use std::fmt::Write;

use redrive_core::lane::Lane;
use redrive_core::partition::{ControlSnapshot, Mark, Partition, Status, Wanted};
use redrive_core::time::{Timestamp, whole_micros};
use serde::Deserialize;

use crate::error::{Error, Result};

/// Adds what an operation may change of a partition. Nothing is written for what is not there.
pub(super) fn write(partition: &Partition, out: &mut String) {
    let Partition { state, control } = partition;
    out.push_str("{\"status\":\"");
    out.push_str(state.status.as_str());
    out.push_str("\",\"version\":");
    put(out, state.version);
    out.push_str(",\"updated_at\":");
    put(out, state.updated_at.micros());
    if let Some(Wanted { lane, queued_at }) = control.wanted {
        out.push_str(",\"wanted\":[\"");
        out.push_str(lane.as_str());
        out.push_str("\",");
        put(out, queued_at.micros());
        out.push(']');
    }
    if let Some(reprocess) = control.reprocess {
        out.push_str(",\"rejected\":");
        put(out, reprocess.rejected);
    }
    if let Some(not_before) = control.not_before {
        out.push_str(",\"not_before\":");
        put(out, not_before.micros());
    }
    if !control.rate_limit_waited.is_zero() {
        out.push_str(",\"waited\":");
        put(out, whole_micros(control.rate_limit_waited));
    }
    if control.granted > 0 {
        out.push_str(",\"granted\":");
        put(out, control.granted);
    }
    if let Some(mark) = &control.terminal {
        put_mark(out, "terminal", mark);
    }
    if let Some(mark) = &control.paused {
        put_mark(out, "paused", mark);
    }
    out.push('}');
}

fn put(out: &mut String, number: impl std::fmt::Display) {
    // A string takes whatever is written to it.
    let _ = write!(out, "{number}");
}

fn put_mark(out: &mut String, name: &str, Mark { by, at, why }: &Mark) {
    let (by, why) = (serde_json::Value::from(by.as_str()), serde_json::Value::from(why.as_deref()));
    let _ = write!(out, ",\"{name}\":[{by},{},{why}]", at.micros());
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    status: Status,
    version: u64,
    updated_at: i64,
    wanted: Option<(Lane, i64)>,
    /// How many attempts of the reprocess that is asked for were rejected.
    rejected: Option<u32>,
    not_before: Option<i64>,
    waited: Option<i64>,
    granted: Option<u32>,
    terminal: Option<(String, i64, Option<String>)>,
    paused: Option<(String, i64, Option<String>)>,
}

pub(super) fn read(text: &str) -> Result<ControlSnapshot> {
    let kept: Kept = serde_json::from_str(text).map_err(|error| Error::row("operation_changes", error))?;
    let mark = |(by, at, why)| Mark { by, at: Timestamp::from_micros(at), why };
    let wanted = |(lane, queued_at)| Wanted { lane, queued_at: Timestamp::from_micros(queued_at) };
    Ok(ControlSnapshot {
        status: kept.status,
        version: kept.version,
        updated_at: Timestamp::from_micros(kept.updated_at),
        wanted: kept.wanted.map(wanted),
        reprocess: kept.rejected.is_some(),
        rejected: kept.rejected.unwrap_or(0),
        not_before: kept.not_before.map(Timestamp::from_micros),
        waited: kept.waited.unwrap_or(0),
        granted: kept.granted.unwrap_or(0),
        terminal: kept.terminal.map(mark),
        paused: kept.paused.map(mark),
    })
}

#[cfg(test)]
mod tests {
    use redrive_core::key::PartitionKey;
    use redrive_core::partition::Reprocess;

    use super::*;

    fn returned(partition: &Partition) -> ControlSnapshot {
        let mut text = String::new();
        write(partition, &mut text);
        read(&text).unwrap()
    }

    #[test]
    fn everything_that_an_operation_can_change_comes_back() {
        let key = PartitionKey::new("ads", "1", "daily", "2026-01-01").unwrap();
        let mut partition = Partition::new(key, Lane::Retry, Timestamp::from_micros(-5));
        assert_eq!(returned(&partition), partition.snapshot());
        let mark = |why: Option<&str>| Mark {
            by: "a \"b\"\\\n\u{7}é".to_owned(),
            at: Timestamp::MIN,
            why: why.map(str::to_owned),
        };
        partition.state.status = Status::Success;
        partition.state.version = u64::MAX;
        partition.state.updated_at = Timestamp::MAX;
        partition.control.wanted = None;
        partition.control.reprocess = Some(Reprocess { rejected: 0 });
        partition.control.not_before = Some(Timestamp::from_micros(7));
        partition.control.granted = 3;
        partition.control.rate_limit_waited = std::time::Duration::from_secs(5);
        partition.control.terminal = Some(mark(None));
        partition.control.paused = Some(mark(Some("why \"not\"")));
        assert_eq!(returned(&partition), partition.snapshot());
        partition.control.reprocess = Some(Reprocess { rejected: u32::MAX });
        assert_eq!(returned(&partition), partition.snapshot());
    }
}
