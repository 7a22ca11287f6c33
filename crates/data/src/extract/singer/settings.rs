//! `kind = "singer"` in the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings::SettingError;
use crate::settings::duration;
use redrive_core::failure::ErrorClass;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::settings::ValueRef;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The tap and arguments of its own; `--config` and the rest come after them.
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    pub directory: Option<PathBuf>,
    #[serde(default)]
    pub env: BTreeMap<String, ValueRef>,
    /// The tap's configuration. Texts may have placeholders, `{ env = "NAME" }` and `{ file = "PATH" }` are secrets.
    pub config: Option<Map<String, Value>>,
    pub config_file: Option<PathBuf>,
    /// A catalog in which the streams are selected already. Without it the tap is asked, and the one stream selected.
    pub catalog_file: Option<PathBuf>,
    /// Classes of exit codes.
    #[serde(default)]
    pub exit_codes: BTreeMap<String, ErrorClass>,
    /// Classes of texts on stderr; the first one that is found counts, and before the exit code.
    #[serde(default)]
    pub stderr: Vec<Pattern>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// A part of a line, as it stands.
    pub pattern: String,
    pub class: ErrorClass,
    /// Whether the text makes a failure of an exit code 0 too, for taps that skip what they cannot read.
    #[serde(default)]
    pub even_on_success: bool,
}

pub(super) type Exits = BTreeMap<i32, ErrorClass>;

pub(super) fn checked_exits(exit_codes: &BTreeMap<String, ErrorClass>) -> Result<Exits, SettingError> {
    let checked = |(code, class): (&String, &ErrorClass)| match code.parse::<u8>() {
        Ok(code @ 1..) => Ok((i32::from(code), *class)),
        Ok(0) | Err(_) => {
            let why = "is no exit code of a failure; write 1 to 255";
            Err(SettingError::at(code.as_str(), why).within("exit_codes"))
        }
    };
    exit_codes.iter().map(checked).collect()
}
