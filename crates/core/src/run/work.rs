//! What a run is of.

use crate::key::PartitionKey;
use crate::word::words;

words!(
    Workload, "workload" {
        Extract = "extract",
        Ingest = "ingest",
        Process = "process",
    }
);

/// The partition, upload or job that a run works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Extract(PartitionKey),
    /// An uploaded archive, by the name of its file.
    Ingest {
        upload: String,
    },
    /// A job. Two jobs of one category never have the same external id.
    Process {
        category: String,
        external_id: Option<String>,
    },
}

impl Work {
    pub fn workload(&self) -> Workload {
        match self {
            Self::Extract(_) => Workload::Extract,
            Self::Ingest { .. } => Workload::Ingest,
            Self::Process { .. } => Workload::Process,
        }
    }

    /// The partition of an extraction.
    pub fn key(&self) -> Option<&PartitionKey> {
        match self {
            Self::Extract(key) => Some(key),
            Self::Ingest { .. } | Self::Process { .. } => None,
        }
    }

    /// The category that decides which workers may claim the run. Only jobs have one.
    pub fn category(&self) -> &str {
        match self {
            Self::Process { category, .. } => category,
            Self::Extract(_) | Self::Ingest { .. } => "",
        }
    }

    pub fn external_id(&self) -> Option<&str> {
        match self {
            Self::Process { external_id, .. } => external_id.as_deref(),
            Self::Extract(_) | Self::Ingest { .. } => None,
        }
    }
}
