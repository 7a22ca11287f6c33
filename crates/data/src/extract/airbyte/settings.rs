//! `kind = "airbyte"` in the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings::duration;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::settings::ValueRef;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The source and arguments of its own; `read`, `--config` and the rest come after them.
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    pub directory: Option<PathBuf>,
    #[serde(default)]
    pub env: BTreeMap<String, ValueRef>,
    /// The source's configuration. Texts may have placeholders, `{ env = "NAME" }` and `{ file = "PATH" }` are secrets.
    pub config: Option<Map<String, Value>>,
    pub config_file: Option<PathBuf>,
    /// A catalog as `discover` gives it, or a configured one. Without it the source is asked.
    pub catalog_file: Option<PathBuf>,
    /// Whether a stream must say that it is COMPLETE. Sources that are too old to say anything need `false`.
    #[serde(default = "required")]
    pub require_status: bool,
}

fn required() -> bool {
    true
}
