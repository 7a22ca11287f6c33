//! Where a sink is, as the configuration writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use object_store::path::Path;

use super::error::Error;
use super::runs::MAX_BELOW_BASE;

/// S3's limit on the bytes of a whole key.
const S3_KEY_MAX: usize = 1024;

/// `file:DIRECTORY` or `s3://BUCKET/PREFIX`. The text after the scheme is taken as it stands, without percent-decoding:
/// `file:$PWD/raw` works whatever the directory is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawUrl {
    /// Absolute, or relative to the directory the process was started in.
    File(PathBuf),
    S3 {
        bucket: String,
        prefix: Path,
    },
}

impl FromStr for RawUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        let invalid = |why: &'static str| Error::Url { url: without_secret(url), why };
        match url.split_once(':') {
            Some(("file", path)) => file(path).map_err(invalid),
            Some(("s3", rest)) => {
                s3(rest.strip_prefix("//").ok_or_else(|| invalid("lacks the // of s3://"))?).map_err(invalid)
            }
            Some(_) => Err(invalid("has a scheme this build does not know")),
            None => Err(invalid("has no scheme")),
        }
    }
}

fn file(path: &str) -> Result<RawUrl, &'static str> {
    let path = match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return Err("names a host (put three slashes before an absolute path, none before a relative one)"),
        None => path,
    };
    match path {
        "" => Err("names no directory"),
        path if path.contains('\0') => Err("holds a zero byte"),
        path => Ok(RawUrl::File(PathBuf::from(path))),
    }
}

fn s3(rest: &str) -> Result<RawUrl, &'static str> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        return Err("holds credentials (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead)");
    }
    if bucket.is_empty() {
        return Err("names no bucket");
    }
    if !bucket.bytes().all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_')) {
        return Err("has a bucket name with a character that no bucket can have");
    }
    if prefix.contains(['?', '#']) {
        return Err("has a query or fragment (settings come from AWS_* variables)");
    }
    let prefix =
        Path::parse(prefix).map_err(|_| "has an empty, `.` or `..` step or a control character in its prefix")?;
    if prefix.as_ref().len() + 1 + MAX_BELOW_BASE > S3_KEY_MAX {
        return Err("has too long a prefix: S3 keys have 1024 bytes, and up to 868 are needed below it");
    }
    Ok(RawUrl::S3 { bucket: bucket.to_owned(), prefix })
}

/// The user part of a URL may be a secret, and errors are logged.
fn without_secret(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}://…{}", &url[..scheme], &url[at..]),
        _ => url.to_owned(),
    }
}

impl fmt::Display for RawUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::S3 { bucket, prefix } if prefix.is_root() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_shown() {
        for (text, shown) in [
            ("file:raw", "file:raw"),
            ("file:./my raw%20", "file:./my raw%20"),
            ("file:/var/raw", "file:/var/raw"),
            ("file:///var/raw", "file:/var/raw"),
            ("s3://lake", "s3://lake"),
            ("s3://lake/", "s3://lake"),
            ("s3://lake/raw/ads/", "s3://lake/raw/ads"),
        ] {
            assert_eq!(text.parse::<RawUrl>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_wrong_url_is_named_with_what_to_write() {
        let too_long = format!("s3://lake/{}", "p".repeat(156));
        for (text, why) in [
            ("raw", "has no scheme"),
            ("", "has no scheme"),
            ("gs://lake", "does not know"),
            ("file:", "names no directory"),
            ("file://raw", "names a host"),
            ("s3:lake", "lacks the //"),
            ("s3://", "names no bucket"),
            ("s3:///x", "names no bucket"),
            ("s3://la ke", "no bucket can have"),
            ("s3://lake/a//b", "empty, `.` or `..`"),
            ("s3://lake/../b", "empty, `.` or `..`"),
            ("s3://lake/x?region=eu", "AWS_* variables"),
            (&too_long, "too long a prefix"),
        ] {
            let error = text.parse::<RawUrl>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains(why), "{error}");
            assert!(error.ends_with("write file:DIRECTORY or s3://BUCKET/PREFIX") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        let error = "s3://AKIA:secret@lake/x".parse::<RawUrl>().unwrap_err().to_string();
        assert!(
            error.contains("holds credentials") && !error.contains("secret@") && !error.contains("AKIA:"),
            "{error}"
        );
    }
}
