//! A JSON Schema that every record must fit.

use std::path::Path;

use jsonschema::Validator;
use redrive_core::validation::excerpt;
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Schema(Validator);

impl Schema {
    /// Reads the file once. Which draft it is, it says itself; nothing that it refers to elsewhere is fetched.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let error_of = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read(path).map_err(|error| error_of(error.to_string()))?;
        let schema: Value =
            serde_json::from_slice(&text).map_err(|error| error_of(format!("it is not JSON: {error}")))?;
        let built = jsonschema::options().build(&schema);
        built.map(Self).map_err(|error| error_of(format!("it is no JSON Schema that can be used: {error}")))
    }

    pub(super) fn accepts(&self, line: &str) -> bool {
        serde_json::from_str(line).is_ok_and(|record: Value| self.0.is_valid(&record))
    }

    /// Why a record is not accepted: the first reason, and where in it.
    pub(super) fn objection(&self, line: &str) -> String {
        let record: Value = match serde_json::from_str(line) {
            Ok(record) => record,
            Err(error) => return format!(": it cannot be checked ({error})"),
        };
        let Err(error) = self.0.validate(&record) else { return String::new() };
        let place = error.instance_path().to_string();
        let at = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place.as_bytes())) };
        format!("{at}: {}", excerpt(error.to_string().as_bytes()))
    }
}
