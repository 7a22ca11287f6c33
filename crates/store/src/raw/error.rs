//! What can go wrong with the sink. Every text is one line that names the object and says what to do.

use super::digest::Sha256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("raw url {url:?} {why}; write file:DIRECTORY or s3://BUCKET/PREFIX")]
    Url { url: String, why: &'static str },
    #[error("s3 setting for {url}: {why}; check the AWS_* variables")]
    Settings { url: String, why: String },
    /// The cause is kept for logs that print it, and not as `source`: it is long, and its core is in `problem`.
    #[error("cannot {doing} {object}: {problem}")]
    Storage { doing: &'static str, object: String, problem: Problem, cause: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "{object} is already there with other content and was left as it is; give every attempt a run_id of its own"
    )]
    Conflict { object: String },
    #[error("line {number} of {object} {why}; write one JSON value per line")]
    Line { number: u64, object: String, why: &'static str },
    #[error("an earlier write to {object} failed or was cancelled; finish it as failed and start a new attempt")]
    Interrupted { object: String },
    #[error("{object} is not a manifest of this run: {why}; restore it from a backup or run the partition again")]
    Manifest { object: String, why: String },
    #[error("{object} has format {format}, and this build reads format {}; upgrade redrive", super::runs::FORMAT)]
    Format { object: String, format: u32 },
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Error {
    /// What the file system or S3 refused for, when it did.
    pub fn problem(&self) -> Option<&Problem> {
        if let Self::Storage { problem, .. } = self { Some(problem) } else { None }
    }
}

/// Why the file system or S3 refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it does not exist; create it or correct the raw url")]
    Missing,
    #[error("permission denied; let this user (or these AWS keys) read and write there")]
    Denied,
    #[error("the file system is read-only; mount it writable or choose another directory")]
    ReadOnly,
    #[error("the disk is full; make room or choose another directory")]
    Full,
    #[error("a file stands where a directory should be; move it or choose another directory")]
    NotADirectory,
    #[error("the bucket does not exist; create it or correct the raw url")]
    NoBucket,
    #[error("the endpoint cannot be reached ({0}); check AWS_ENDPOINT_URL, AWS_REGION and the network")]
    Unreachable(String),
    #[error("the credentials were refused; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    Credentials,
    #[error("{0}")]
    Other(String),
}

/// How the sink's content differs from what a manifest says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("{object} is missing; restore it from a backup or run the partition again")]
    Missing { object: String },
    #[error("{object} has {found} bytes and the manifest says {expected}; restore it or run the partition again")]
    Size { object: String, expected: u64, found: u64 },
    #[error("{object} has sha256 {found} and the manifest says {expected}; restore it or run the partition again")]
    Hash { object: String, expected: Sha256, found: Sha256 },
    #[error("{object} holds {found} {unit} and the manifest says {expected}; restore it or run the partition again")]
    Count { object: String, unit: &'static str, expected: u64, found: u64 },
    #[error("{object} is not zstd ({why}); restore it or run the partition again")]
    Undecodable { object: String, why: String },
}
