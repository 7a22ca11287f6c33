//! What a run left behind, in `_manifest.json`: the last object of its directory and the only one that counts.

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::sink::RunHeader;
use crate::raw::digest::Sha256;
use crate::raw::error::Error;

/// The version of the manifest that this build writes and reads.
pub const FORMAT: u32 = 1;

/// How an attempt ended, as its extractor saw it. The validator's verdict is another matter and is not kept here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunOutcome {
    Complete,
    Failed { error_class: String, message: String },
}

/// One part file. `bytes` is before compression; the hash is of the compressed bytes, which is what lies in the sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    pub name: String,
    pub records: u64,
    pub bytes: u64,
    pub compressed_bytes: u64,
    pub sha256: Sha256,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    #[serde(flatten)]
    pub key: PartitionKey,
    pub run_id: RunId,
    pub fence: TaskId,
    pub extractor: String,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub outcome: RunOutcome,
    pub records: u64,
    /// Before compression, each line's newline included.
    pub bytes: u64,
    pub parts: Vec<PartInfo>,
}

impl Manifest {
    pub(super) fn new(header: RunHeader, parts: Vec<PartInfo>, outcome: RunOutcome, finished_at: Timestamp) -> Self {
        let RunHeader { key, run_id, fence, extractor, started_at } = header;
        Self {
            format: FORMAT,
            key,
            run_id,
            fence,
            extractor,
            started_at,
            finished_at,
            outcome,
            records: parts.iter().map(|part| part.records).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            parts,
        }
    }

    /// The same manifest gives the same bytes: a repeated put must be recognised as its own.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("a manifest has text keys and no failing serializer");
        json.push(b'\n');
        json
    }

    /// The hash of the object that it is in the sink.
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(&self.to_json())
    }

    /// `object` is for the error text alone.
    pub(super) fn from_json(object: &str, json: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let invalid = |why: serde_json::Error| Error::Manifest { object: object.to_owned(), why: why.to_string() };
        let other = |format| Error::Format { object: object.to_owned(), format };
        match serde_json::from_slice::<Self>(json) {
            Ok(manifest) if manifest.format == FORMAT => Ok(manifest),
            Ok(Self { format, .. }) => Err(other(format)),
            // One of another version may well look different.
            Err(why) => match serde_json::from_slice(json) {
                Ok(Versioned { format }) if format != FORMAT => Err(other(format)),
                Ok(_) | Err(_) => Err(invalid(why)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            key: PartitionKey::new("ads", "ACME/1", "daily", "2026-01-31").unwrap(),
            run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
            fence: "019a0000-0000-7000-8000-000000000002".parse().unwrap(),
            extractor: "sample".to_owned(),
            started_at: Timestamp::from_micros(1_000_001),
            finished_at: Timestamp::from_micros(2_000_000),
            outcome: RunOutcome::Failed { error_class: "retryable".to_owned(), message: "no \"luck\"\n".to_owned() },
            records: 2,
            bytes: 10,
            parts: vec![PartInfo {
                name: "part-00000.jsonl.zst".to_owned(),
                records: 2,
                bytes: 10,
                compressed_bytes: 19,
                sha256: Sha256::of(b"x"),
            }],
        }
    }

    #[test]
    fn json_is_fixed_and_read_back_whole() {
        let json = manifest().to_json();
        assert_eq!(Manifest::from_json("m", &json).unwrap(), manifest());
        let expected = r#"{
  "format": 1,
  "source": "ads",
  "customer_id": "ACME/1",
  "query_name": "daily",
  "logical_date": "2026-01-31",
  "run_id": "019a0000-0000-7000-8000-000000000001",
  "fence": "019a0000-0000-7000-8000-000000000002",
  "extractor": "sample",
  "started_at": "1970-01-01T00:00:01.000001Z",
  "finished_at": "1970-01-01T00:00:02.000000Z",
  "outcome": {
    "state": "failed",
    "error_class": "retryable",
    "message": "no \"luck\"\n"
  },
  "records": 2,
  "bytes": 10,
  "parts": [
    {
      "name": "part-00000.jsonl.zst",
      "records": 2,
      "bytes": 10,
      "compressed_bytes": 19,
      "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }
  ]
}
"#;
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn a_format_from_the_future_is_named_whatever_else_it_holds() {
        let error = Manifest::from_json("s3://b/_manifest.json", br#"{"format":2,"parts":"elsewhere"}"#).unwrap_err();
        assert!(matches!(error, Error::Format { format: 2, .. }), "{error}");
        assert!(error.to_string().contains("s3://b/_manifest.json"), "{error}");
        assert!(matches!(Manifest::from_json("m", b"{}"), Err(Error::Manifest { .. })));
        assert!(matches!(Manifest::from_json("m", b""), Err(Error::Manifest { .. })));
    }
}
