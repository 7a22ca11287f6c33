//! A tap's messages: which of them matter, and what is kept.

use std::borrow::Cow;
use std::collections::BTreeSet;

use redrive_core::text::{cut, one_line};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalog::Stream;
use super::key::Keys;
use crate::extract::Failure;
use crate::extract::connector::MessageHandler;
use crate::extract::seen::Seen;

const EXCERPT_BYTES: usize = 80;

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    record: Option<&'a RawValue>,
    #[serde(default)]
    key_properties: Option<Vec<String>>,
}

impl<'a> Message<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        // A list would be taken for an object's values.
        line.starts_with(b"{").then(|| serde_json::from_slice(line).ok()).flatten()
    }
}

/// What a tap has said so far.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) stream: Stream,
    /// None before the stream's SCHEMA has come.
    key_properties: Option<Vec<String>>,
    /// Other streams that it has sent the SCHEMA of.
    pub(super) others: BTreeSet<String>,
    pub(super) records: u64,
    pub(super) duplicates: u64,
    keys: Keys,
    seen: Seen,
}

impl Tap {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            key_properties: None,
            others: BTreeSet::new(),
            records: 0,
            duplicates: 0,
            keys: Keys::default(),
            seen: Seen::default(),
        }
    }

    pub(super) fn has_schema(&self) -> bool {
        self.key_properties.is_some()
    }

    fn record(&mut self, number: u64, record: &RawValue, records: &mut Vec<u8>) -> Result<(), Failure> {
        self.records += 1;
        let properties = self.key_properties.as_deref().unwrap_or_default();
        let key = self.keys.of(record, properties).map_err(|error| {
            Failure::retryable(format!("the RECORD in line {number} of the tap's output holds no object: {error}"))
        })?;
        if let Some(key) = key.filter(|_| !properties.is_empty()) {
            let new = self.seen.insert(key);
            if !new.map_err(|error| Failure::retryable(format!("cannot keep the keys in a temporary file: {error}")))? {
                self.duplicates += 1;
                return Ok(());
            }
        }
        records.extend_from_slice(record.get().as_bytes());
        records.push(b'\n');
        Ok(())
    }
}

impl MessageHandler for Tap {
    fn line(&mut self, number: u64, line: &[u8], records: &mut Vec<u8>) -> Result<(), Failure> {
        let message = Message::read(line).ok_or_else(|| {
            let said = cut(&one_line(&String::from_utf8_lossy(line)), EXCERPT_BYTES);
            Failure::retryable(format!("line {number} of the tap's output is no Singer message: {said:?}"))
        })?;
        let name = message.stream.unwrap_or_default();
        let wanted = self.stream.is(&name);
        match &*message.kind {
            "RECORD" if wanted => {
                let missing =
                    || Failure::retryable(format!("the RECORD in line {number} of the tap's output is empty"));
                self.record(number, message.record.ok_or_else(missing)?, records)
            }
            "SCHEMA" if wanted => {
                self.key_properties = Some(message.key_properties.unwrap_or_default());
                Ok(())
            }
            "SCHEMA" => {
                self.others.insert(name.into_owned());
                Ok(())
            }
            "BATCH" if wanted => Err(Failure::fatal(
                "the tap sends its records in files (BATCH), which are not read; take batch_config out of its config",
            )),
            _ => Ok(()),
        }
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
    fn records_of_the_stream_are_kept_as_they_stand_and_duplicates_dropped() {
        let said = r#"
            {"type":"SCHEMA","stream":"users","schema":{},"key_properties":["id"]}
            {"type":"RECORD","stream":"users","record":{"id": 1, "price":1.50, "big":123456789012345678901234567890}}
            {"type":"RECORD","stream":"orders","record":{"id":2}}
            {"type":"STATE","value":{"bookmarks":{}}}
            {"type":"RECORD","stream":"users","record":{"id":1,"price":2}}
            {"type":"ACTIVATE_VERSION","stream":"users","version":1}
            {"type":"RECORD","stream":"users","time_extracted":"x","record":{"price":3}}
            {"type":"RECORD","stream":"users","record":{"price":3}}"#;
        let mut tap = tap();
        let kept = String::from_utf8(tap.take(said.as_bytes()).unwrap()).unwrap();
        let first = r#"{"id": 1, "price":1.50, "big":123456789012345678901234567890}"#;
        assert_eq!(kept, format!("{first}\n{{\"price\":3}}\n{{\"price\":3}}\n"));
    }

    #[test]
    fn without_key_properties_nothing_is_a_duplicate() {
        let said = r#"{"type":"SCHEMA","stream":"users","schema":{},"key_properties":[]}
            {"type":"RECORD","stream":"users","record":{"id":1}}
            {"type":"RECORD","stream":"users","record":{"id":1}}"#;
        assert_eq!(tap().take(said.as_bytes()).unwrap(), b"{\"id\":1}\n{\"id\":1}\n");
    }

    #[test]
    fn a_line_that_is_no_message_is_named_by_its_number_with_little_of_it() {
        let secret = "x".repeat(500);
        for line in [format!("Traceback {secret}"), format!("[\"{secret}\"]"), format!("{{\"kind\":\"{secret}\"}}")] {
            let said = format!("{{\"type\":\"STATE\",\"value\":1}}\n\n{line}\n");
            let failure = tap().take(said.as_bytes()).unwrap_err();
            assert!(failure.message.starts_with("line 3 of the tap's output is no Singer message"), "{failure}");
            assert!(failure.message.len() < 200, "{failure}");
            assert_eq!(failure.class, redrive_core::failure::ErrorClass::Retryable);
        }
    }

    #[test]
    fn records_in_files_are_refused_instead_of_lost() {
        let said = br#"{"type":"BATCH","stream":"users","manifest":["file:///x"]}"#;
        assert!(tap().take(said).unwrap_err().message.contains("BATCH"));
    }
}
