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
        let wrong = |why: String| format!("schema {}: {why}", path.display());
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let schema: Value = serde_json::from_slice(&text).map_err(|error| wrong(format!("it is not JSON: {error}")))?;
        let built = jsonschema::options().offline().build(&schema);
        built.map(Self).map_err(|error| wrong(format!("it is no JSON Schema that can be used: {error}")))
    }

    /// Why a record does not fit.
    pub(super) fn check(&self, line: &str) -> Result<(), String> {
        let record: Value = match serde_json::from_str(line) {
            Ok(record) => record,
            Err(error) => return Err(format!(": it cannot be checked ({error})")),
        };
        let Err(error) = self.0.validate(&record) else { return Ok(()) };
        let place = error.instance_path().to_string();
        let at = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place.as_bytes())) };
        Err(format!("{at}: {}", excerpt(error.to_string().as_bytes())))
    }
}
