//! What can go wrong with the sink. Every text is one line that names the object and says what to do.

use std::io::{self, ErrorKind};

use object_store::client::{HttpError, HttpErrorKind};
use redrive_core::cause::chain;
use redrive_core::text;

use super::digest::Sha256;
use super::marker::SinkId;

/// How much of another library's text goes into our line, in bytes.
const TEXT_MAX: usize = 200;

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
    #[error(
        "the raw sink is not at {sink}: nothing there says that it is sink {expected}, which this database writes to; \
         mount or restore it, correct raw.url, or have this database adopt the place as it is"
    )]
    NoSink { sink: String, expected: SinkId },
    #[error(
        "{sink} is another raw sink: its id is {found}, and this database writes to {expected}; correct raw.url, or \
         have this database adopt the place as it is"
    )]
    OtherSink { sink: String, found: SinkId, expected: SinkId },
    #[error("{object} is no marker of a raw sink: {why}; restore it from a backup")]
    Marker { object: String, why: String },
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Error {
    pub(super) fn storage(doing: &'static str, object: impl Into<String>, cause: object_store::Error) -> Self {
        Self::Storage { doing, object: object.into(), problem: problem(&cause), cause: cause.into() }
    }

    pub(super) fn file(doing: &'static str, object: impl Into<String>, cause: io::Error) -> Self {
        let problem = of_io(&cause).unwrap_or_else(|| Problem::Other(short(&cause.to_string())));
        Self::Storage { doing, object: object.into(), problem, cause: cause.into() }
    }

    /// Whether no attempt would have got further, whatever it had brought. A sink that is well again a moment later was still to
    /// blame.
    pub fn is_of_the_whole_sink(&self) -> bool {
        match self {
            Self::NoSink { .. } | Self::OtherSink { .. } | Self::Marker { .. } => true,
            Self::Storage { problem, .. } => match problem {
                // Directories are made on the way: what is missing is above them.
                Problem::Missing | Problem::Full | Problem::ReadOnly => true,
                Problem::NoBucket | Problem::Unreachable(_) | Problem::Credentials => true,
                Problem::Denied | Problem::NotADirectory | Problem::Other(_) => false,
            },
            Self::Url { .. }
            | Self::Settings { .. }
            | Self::Conflict { .. }
            | Self::Line { .. }
            | Self::Interrupted { .. }
            | Self::Manifest { .. }
            | Self::Format { .. }
            | Self::Damaged(_) => false,
        }
    }

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
    #[error("{object} is not what was uploaded: it {what}; restore it from a backup or upload the file again")]
    Altered { object: String, what: String },
    #[error("{object} is not zstd ({why}); restore it or run the partition again")]
    Undecodable { object: String, why: String },
}

/// A request that may or may not have arrived. Repeating our puts is harmless, which the library cannot know.
pub(super) fn is_uncertain(error: &object_store::Error) -> bool {
    chain(error).filter_map(|cause| cause.downcast_ref::<HttpError>()).any(|http| match http.kind() {
        HttpErrorKind::Timeout | HttpErrorKind::Interrupted | HttpErrorKind::Request => true,
        HttpErrorKind::Connect | HttpErrorKind::Decode | HttpErrorKind::Unknown => false,
        _ => false,
    })
}

/// S3 answers 404 both for an object and for a bucket that is not there.
pub(super) fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) && problem(error) != Problem::NoBucket
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the library's own and may grow")]
fn problem(error: &object_store::Error) -> Problem {
    if let Some(known) = chain(error).find_map(|cause| {
        let io = cause.downcast_ref::<io::Error>().and_then(of_io);
        io.or_else(|| cause.downcast_ref::<HttpError>().and_then(of_http))
    }) {
        return known;
    }
    let text = error.to_string();
    if text.contains("NoSuchBucket") {
        return Problem::NoBucket;
    }
    if ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"].iter().any(|c| text.contains(c))
    {
        return Problem::Credentials;
    }
    match error {
        object_store::Error::NotFound { .. } => Problem::Missing,
        object_store::Error::PermissionDenied { .. } => Problem::Denied,
        object_store::Error::Unauthenticated { .. } => Problem::Credentials,
        _ => Problem::Other(short(&text)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the library's own and may grow")]
fn of_io(error: &io::Error) -> Option<Problem> {
    match error.kind() {
        ErrorKind::NotFound => Some(Problem::Missing),
        ErrorKind::PermissionDenied => Some(Problem::Denied),
        ErrorKind::ReadOnlyFilesystem => Some(Problem::ReadOnly),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Problem::Full),
        ErrorKind::NotADirectory => Some(Problem::NotADirectory),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the library's own and may grow")]
fn of_http(error: &HttpError) -> Option<Problem> {
    let deepest = || chain(error).last().map_or_else(String::new, |cause| short(&cause.to_string()));
    match error.kind() {
        HttpErrorKind::Connect => Some(Problem::Unreachable(deepest())),
        HttpErrorKind::Timeout => Some(Problem::Unreachable("timed out".to_owned())),
        _ => None,
    }
}

pub(super) fn short(text: &str) -> String {
    text::cut(&text::one_line(text), TEXT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(kind: ErrorKind) -> object_store::Error {
        object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(io::Error::from(kind)) }
    }

    #[test]
    fn what_the_file_system_says_is_found_below_the_library() {
        for (kind, expected) in [
            (ErrorKind::StorageFull, Problem::Full),
            (ErrorKind::QuotaExceeded, Problem::Full),
            (ErrorKind::ReadOnlyFilesystem, Problem::ReadOnly),
            (ErrorKind::PermissionDenied, Problem::Denied),
            (ErrorKind::NotADirectory, Problem::NotADirectory),
        ] {
            assert_eq!(problem(&wrapped(kind)), expected);
        }
        let line = Error::storage("write", "/raw/part-00000.jsonl.zst", wrapped(ErrorKind::StorageFull)).to_string();
        assert_eq!(
            line,
            "cannot write /raw/part-00000.jsonl.zst: the disk is full; make room or choose another directory"
        );
    }

    #[test]
    fn what_concerns_the_whole_sink_is_no_partitions_fault() {
        for (kind, is_of_the_whole) in [
            (ErrorKind::NotFound, true),
            (ErrorKind::StorageFull, true),
            (ErrorKind::ReadOnlyFilesystem, true),
            (ErrorKind::PermissionDenied, false),
            (ErrorKind::NotADirectory, false),
            (ErrorKind::InvalidFilename, false),
        ] {
            let error = Error::file("write", "/raw/x", kind.into());
            assert_eq!(error.is_of_the_whole_sink(), is_of_the_whole, "{error}");
        }
        let expected = SinkId::from_uuid(uuid::Uuid::nil());
        assert!(Error::NoSink { sink: "/raw".to_owned(), expected }.is_of_the_whole_sink());
        assert!(!Error::Damaged(Damage::Missing { object: "/raw/x".to_owned() }).is_of_the_whole_sink());
    }

    #[test]
    fn a_long_answer_becomes_one_short_line() {
        let body = format!("<?xml?>\n<Error>\n\t{}</Error>", "é".repeat(500));
        let error = object_store::Error::Generic { store: "S3", source: body.into() };
        let line = Error::storage("list", "s3://lake", error).to_string();
        assert!(!line.contains('\n') && line.chars().count() < 260 && line.ends_with('…'), "{line}");
    }
}
