//! `[sources.<name>.validate]`: what a source's records must be like.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::program::{Launch, Program};
use crate::settings::{SettingError, Surroundings, ValueRef, duration, paths};
use redrive_core::validation::{FieldPath, FieldType, PathError, Totals, TotalsError};
use serde::Deserialize;

use super::program::ValidatorProgram;
use super::rules::{RuleSet, Rules};
use super::schema::Schema;

/// Fields are named by paths such as `campaign.id`; a dot within a name is written `\.`. Whatever is set here, every
/// record must be one JSON object. Where an object has a key twice, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// 1 unless it is set: that a source may have nothing must be said on purpose, by 0.
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
    /// A program that is shown the records when every other rule is kept, with placeholders.
    pub command: Option<Vec<String>>,
    /// How long it may take.
    #[serde(deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Where it runs.
    pub directory: Option<PathBuf>,
    /// Variables beside those that are inherited and those that name the partition.
    pub env: BTreeMap<String, ValueRef>,
}

/// How long a program may take unless the settings say otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Settings {
    /// Has relative paths begin in this folder.
    pub fn start_from(&mut self, folder: &Path) {
        paths::start(&mut self.schema, folder);
        if self.command.is_some() {
            self.directory = paths::directory(self.directory.take(), folder);
        }
        self.env.values_mut().for_each(|value| value.start_from(folder));
    }

    /// The program that is asked last, where there is one.
    pub fn program(&self, around: &Surroundings) -> Result<Option<ValidatorProgram>, SettingError> {
        let Some(command) = &self.command else {
            let set = [
                ("timeout", self.timeout.is_some()),
                ("directory", self.directory.is_some()),
                ("env", !self.env.is_empty()),
            ];
            return match set.iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => {
                    Err(SettingError::at(*key, "needs command, which is not set; set that, or leave this out"))
                }
                None => Ok(None),
            };
        };
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        if timeout.is_zero() {
            return Err(SettingError::at("timeout", "0 is too little; no program could answer"));
        }
        let launch = Launch { command, directory: self.directory.as_deref(), env: &self.env };
        Ok(Some(ValidatorProgram { program: Program::new(&launch, around)?, timeout }))
    }

    /// The rules, or what is wrong with the settings.
    pub fn build(&self) -> Result<Rules, SettingError> {
        // A source that may have no record at all has been said to.
        let least = self.min_records.unwrap_or(if self.max_records == Some(0) { 0 } else { 1 });
        let totals = Totals::new(Some(least), self.max_records, self.max_shrink);
        let of_type = |(field, wanted): (&String, &FieldType)| {
            let path = path(field).map_err(|why| SettingError::at(field.as_str(), why).within("types"))?;
            Ok((path, *wanted))
        };
        let (date, schema) = (self.date_field.as_deref().map(path), self.schema.as_deref().map(Schema::new));
        Ok(Rules::new(RuleSet {
            totals: totals.map_err(miscounted)?,
            required: paths("required_fields", &self.required_fields)?,
            types: self.types.iter().map(of_type).collect::<Result<_, SettingError>>()?,
            date: date.transpose().map_err(|why| SettingError::at("date_field", why))?,
            unique: paths("unique", &self.unique)?,
            schema: schema.transpose().map_err(|why| SettingError::at("schema", why))?,
        }))
    }
}

fn miscounted(error: TotalsError) -> SettingError {
    match error {
        TotalsError::Crossed { .. } => SettingError::at("min_records", error.to_string()).also(&["max_records"]),
        TotalsError::Shrink(_) => SettingError::at("max_shrink", error.to_string()),
    }
}

fn paths(setting: &str, fields: &[String]) -> Result<Vec<FieldPath>, SettingError> {
    let mut paths = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let invalid = |why: String| SettingError::at(index, why).within(setting);
        let path = path(field).map_err(invalid)?;
        if paths.contains(&path) {
            return Err(invalid(format!("{field:?} is named twice; remove one")));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn path(field: &str) -> Result<FieldPath, String> {
    field.parse().map_err(|error: PathError| error.to_string())
}
