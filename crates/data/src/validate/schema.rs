//! A JSON Schema that every record must fit.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jsonschema::Validator;
use redrive_core::validation::excerpt;
use serde_json::Value;

/// Read once: when the rules are made, or as soon as its file is there.
#[derive(Debug)]
pub(super) struct Schema {
    path: PathBuf,
    read: OnceLock<Validator>,
}

impl Schema {
    /// Reads the file. One that is not there may come later; one that is no schema is a mistake.
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let schema = Self { path: path.to_owned(), read: OnceLock::new() };
        match schema.read() {
            Err(why) if path.exists() => Err(why),
            Ok(_) | Err(_) => Ok(schema),
        }
    }

    /// The schema. Which draft it is, it says itself; nothing that it refers to elsewhere is fetched.
    pub(super) fn read(&self) -> Result<&Validator, String> {
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let error_of = |why: String| format!("{}: {why}", self.path.display());
        let text = std::fs::read(&self.path).map_err(|error| error_of(error.to_string()))?;
        let schema: Value =
            serde_json::from_slice(&text).map_err(|error| error_of(format!("it is not JSON: {error}")))?;
        let built = jsonschema::options().build(&schema);
        let built = built.map_err(|error| error_of(format!("it is no JSON Schema that can be used: {error}")))?;
        Ok(self.read.get_or_init(|| built))
    }
}

pub(super) fn accepts(schema: &Validator, line: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|record: Value| schema.is_valid(&record))
}

/// Why a record is not accepted: the first reason, and where in it.
pub(super) fn objection(schema: &Validator, line: &str) -> String {
    let record: Value = match serde_json::from_str(line) {
        Ok(record) => record,
        Err(error) => return format!(": it cannot be checked ({error})"),
    };
    let Err(error) = schema.validate(&record) else { return String::new() };
    let place = error.instance_path().to_string();
    let at = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place.as_bytes())) };
    format!("{at}: {}", excerpt(error.to_string().as_bytes()))
}
