//! `[sources.<name>.validate]`: what a source's records must be like.

use std::collections::BTreeMap;
use std::path::PathBuf;

use redrive_core::validation::{FieldPath, FieldType, Totals};
use serde::Deserialize;

use super::rules::{Asked, Rules};
use super::schema::Schema;

/// Fields are named by paths such as `campaign.id`; a dot within a name is written `\.`. Whatever is set here, every
/// record must be one JSON object. Where an object has a key twice, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub min_records: Option<u64>,
    pub max_records: Option<u64>,
    /// Fields that every record has, and not as `null`.
    pub required_fields: Vec<String>,
    /// What fields are where they are there and not `null`.
    pub types: BTreeMap<String, FieldType>,
    /// Fields that together are different in every record; one that is not there counts as `null`.
    pub unique: Vec<String>,
    /// A date or timestamp that must lie, as it is written, on the partition's day. Every record must have it.
    pub date_field: Option<String>,
    /// Which share of the records it would replace a rerun may lose: 0 to 1.
    pub max_shrink: Option<f64>,
    /// A file with a JSON Schema. References out of it are not followed.
    pub schema: Option<PathBuf>,
}

impl Settings {
    /// The rules, or what is wrong with the settings.
    pub fn build(&self) -> Result<Rules, String> {
        let totals = Totals::new(self.min_records, self.max_records, self.max_shrink);
        let types: Result<Vec<_>, String> =
            self.types.iter().map(|(field, wanted)| Ok((path("types", field)?, *wanted))).collect();
        Ok(Rules::new(Asked {
            totals: totals.map_err(|error| error.to_string())?,
            required: paths("required_fields", &self.required_fields)?,
            types: types?,
            date: self.date_field.as_deref().map(|field| path("date_field", field)).transpose()?,
            unique: paths("unique", &self.unique)?,
            schema: self.schema.as_deref().map(Schema::read).transpose()?,
        }))
    }
}

fn paths(setting: &str, fields: &[String]) -> Result<Vec<FieldPath>, String> {
    let mut paths = Vec::new();
    for field in fields {
        let path = path(setting, field)?;
        if paths.contains(&path) {
            return Err(format!("{setting} names {field:?} twice; remove one"));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn path(setting: &str, field: &str) -> Result<FieldPath, String> {
    field.parse().map_err(|error| format!("{setting}: {error}"))
}
