//! From the libraries' errors to ours: what matters is deep in their chain, and their texts run over many lines.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the libraries' own and may grow")]

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use object_store::client::{HttpError, HttpErrorKind};
use redrive_core::text;

use super::error::{Error, Problem};

/// How much of a foreign text goes into our line, in bytes.
const TEXT_MAX: usize = 200;

pub(super) fn storage(doing: &'static str, object: impl Into<String>, cause: object_store::Error) -> Error {
    Error::Storage { doing, object: object.into(), problem: problem(&cause), cause: cause.into() }
}

pub(super) fn file(doing: &'static str, object: impl Into<String>, cause: io::Error) -> Error {
    let problem = of_io(&cause).unwrap_or_else(|| Problem::Other(short(&cause.to_string())));
    Error::Storage { doing, object: object.into(), problem, cause: cause.into() }
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

fn of_http(error: &HttpError) -> Option<Problem> {
    let deepest = || chain(error).last().map_or_else(String::new, |cause| short(&cause.to_string()));
    match error.kind() {
        HttpErrorKind::Connect => Some(Problem::Unreachable(deepest())),
        HttpErrorKind::Timeout => Some(Problem::Unreachable("timed out".to_owned())),
        _ => None,
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
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
        let line = storage("write", "/raw/part-00000.jsonl.zst", wrapped(ErrorKind::StorageFull)).to_string();
        assert_eq!(
            line,
            "cannot write /raw/part-00000.jsonl.zst: the disk is full; make room or choose another directory"
        );
    }

    #[test]
    fn a_long_answer_becomes_one_short_line() {
        let body = format!("<?xml?>\n<Error>\n\t{}</Error>", "é".repeat(500));
        let error = object_store::Error::Generic { store: "S3", source: body.into() };
        let line = storage("list", "s3://lake", error).to_string();
        assert!(!line.contains('\n') && line.chars().count() < 260 && line.ends_with('…'), "{line}");
    }
}
