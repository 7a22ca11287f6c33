//! A tap's messages: which of them matter, and what is kept.

use std::borrow::Cow;
use std::collections::BTreeSet;

use redrive_core::text::{cut, one_line};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalog::Stream;
use crate::extract::Failure;
use crate::extract::connector::MessageHandler;

const EXCERPT_BYTES: usize = 80;

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    record: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        // A list would be taken for an object's values.
        line.starts_with(b"{").then(|| serde_json::from_slice(line).ok()).flatten()
    }
}

/// What a tap has sent so far.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) stream: Stream,
    pub(super) has_schema: bool,
    /// Other streams that it has sent the SCHEMA of.
    pub(super) others: BTreeSet<String>,
    pub(super) records: u64,
}

impl Tap {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, has_schema: false, others: BTreeSet::new(), records: 0 }
    }
}

impl MessageHandler for Tap {
    fn line(&mut self, number: u64, line: &[u8], records: &mut Vec<u8>) -> Result<(), Failure> {
        let message = Message::read(line).ok_or_else(|| {
            let text = cut(&one_line(&String::from_utf8_lossy(line)), EXCERPT_BYTES);
            Failure::retryable(format!("line {number} of the tap's output is no Singer message: {text:?}"))
        })?;
        let name = message.stream.unwrap_or_default();
        let wanted = self.stream.is(&name);
        match &*message.kind {
            "RECORD" if wanted => {
                let missing =
                    || Failure::retryable(format!("the RECORD in line {number} of the tap's output is empty"));
                records.extend_from_slice(message.record.ok_or_else(missing)?.get().as_bytes());
                records.push(b'\n');
                self.records += 1;
            }
            "SCHEMA" if wanted => self.has_schema = true,
            "SCHEMA" => {
                self.others.insert(name.into_owned());
            }
            "BATCH" if wanted => {
                let why = "the tap sends its records in files (BATCH), which are not read; take batch_config out of its config";
                return Err(Failure::fatal(why));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::*;
    use crate::extract::connector::MessageReader;

    fn tap() -> MessageReader<Tap> {
        let catalog = serde_json::json!({ "streams": [{ "tap_stream_id": "users" }] });
        MessageReader::new(Tap::new(catalog::find(&catalog, "users").unwrap()))
    }

    #[test]
    fn records_of_the_stream_are_kept_as_they_stand_and_come() {
        let output = r#"
            {"type":"SCHEMA","stream":"users","schema":{},"key_properties":["id"]}
            {"type":"RECORD","stream":"users","record":{"id": 1, "price":1.50, "big":123456789012345678901234567890}}
            {"type":"RECORD","stream":"orders","record":{"id":2}}
            {"type":"STATE","value":{"bookmarks":{}}}
            {"type":"RECORD","stream":"users","record":{"id":1,"price":2}}
            {"type":"ACTIVATE_VERSION","stream":"users","version":1}
            {"type":"RECORD","stream":"users","time_extracted":"x","record":{"price":3}}"#;
        let kept = String::from_utf8(tap().take(output.as_bytes()).unwrap()).unwrap();
        let first = r#"{"id": 1, "price":1.50, "big":123456789012345678901234567890}"#;
        assert_eq!(kept, format!("{first}\n{{\"id\":1,\"price\":2}}\n{{\"price\":3}}\n"));
    }

    #[test]
    fn a_line_that_is_no_message_is_named_by_its_number_with_little_of_it() {
        let secret = "x".repeat(500);
        for line in [format!("Traceback {secret}"), format!("[\"{secret}\"]"), format!("{{\"kind\":\"{secret}\"}}")] {
            let output = format!("{{\"type\":\"STATE\",\"value\":1}}\n\n{line}\n");
            let failure = tap().take(output.as_bytes()).unwrap_err();
            assert!(failure.message.starts_with("line 3 of the tap's output is no Singer message"), "{failure}");
            assert!(failure.message.len() < 200, "{failure}");
            assert_eq!(failure.class, redrive_core::failure::ErrorClass::Retryable);
        }
    }

    #[test]
    fn records_in_files_are_refused_instead_of_lost() {
        let output = br#"{"type":"BATCH","stream":"users","manifest":["file:///x"]}"#;
        assert!(tap().take(output).unwrap_err().message.contains("BATCH"));
    }
}
