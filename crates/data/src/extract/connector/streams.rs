//! Streams and catalogs.

use std::path::Path;

use redrive_core::text::{cut, one_line};
use serde_json::Value;

use crate::extract::{Failure, Job};

/// The most that is listed of what exists.
const LISTED: usize = 20;
const NAME_BYTES: usize = 100;

/// Which stream a job means: its query names it, and without a query the query's name does.
pub(in crate::extract) fn wanted(job: &Job) -> String {
    match job.query.as_deref().map(str::trim) {
        None | Some("") => job.key.query_name.to_string(),
        Some(query) => query.to_owned(),
    }
}

/// Names as they can stand in a message.
pub(in crate::extract) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| cut(&one_line(name), NAME_BYTES)).collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    match (names.len(), more) {
        (0, _) => "none".to_owned(),
        (_, 0) => names.join(", "),
        (_, more) => format!("{} and {more} more", names.join(", ")),
    }
}

pub(in crate::extract) fn read_catalog(file: &Path) -> Result<Value, Failure> {
    let error_of = |why: String| Failure::fatal(format!("catalog_file {}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| error_of(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| error_of(format!("it is not JSON: {error}")))
}
