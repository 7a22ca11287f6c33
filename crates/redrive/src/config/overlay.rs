//! The file's text and the environment, made into one set of settings.

use std::path::Path;

use redrive_store::redacted;
use toml::{Table, Value};

use super::ConfigError;
use super::sections::Settings;

const PREFIX: &str = "REDRIVE_";

pub(super) fn read(file: &Path, text: &str, environment: &[(String, String)]) -> Result<Settings, ConfigError> {
    // Read by itself first, so that a mistake in the file is told with its line.
    let settings: Settings = toml::from_str(text).map_err(|error| in_file(file, text, &error))?;
    let overrides: Vec<_> =
        environment.iter().filter(|(name, _)| name.starts_with(PREFIX) && name.contains("__")).collect();
    if overrides.is_empty() {
        return Ok(settings);
    }
    let mut table: Table = toml::from_str(text).map_err(|error| in_file(file, text, &error))?;
    for (name, value) in &overrides {
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
        set(&mut table, &path, value).map_err(|why| ConfigError::new(format!("{name}: {why}")))?;
        // One at a time, so that the variable at fault can be named.
        table
            .clone()
            .try_into::<Settings>()
            .map_err(|error| ConfigError::new(format!("{name}: {}", redacted(error.message()))))?;
    }
    table.try_into().map_err(|error: toml::de::Error| ConfigError::new(error.message().to_owned()))
}

fn in_file(file: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let Some(span) = error.span() else {
        return ConfigError::new(format!("{}: {}", file.display(), error.message()));
    };
    let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
    // Only the key: the value may be a secret.
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let key = source.split('=').next().unwrap_or_default().trim();
    let message = redacted(&error.message().replace('\n', " "));
    ConfigError::new(format!("{}:{line}: {message} (at `{key}`)", file.display()))
}

fn set(table: &mut Table, path: &[String], value: &str) -> Result<(), String> {
    match path {
        [] => Ok(()),
        [key] => {
            table.insert(as_written(table, key), typed(value));
            Ok(())
        }
        [key, rest @ ..] => {
            let inner = table.entry(as_written(table, key)).or_insert_with(|| Value::Table(Table::new()));
            let inner = inner.as_table_mut().ok_or_else(|| format!("{key} is a value, not a section"))?;
            set(inner, rest, value)
        }
    }
}

/// The key as the file has it: variables do not tell capitals apart.
fn as_written(table: &Table, key: &str) -> String {
    table.keys().find(|written| written.eq_ignore_ascii_case(key)).cloned().unwrap_or_else(|| key.to_owned())
}

/// A number, a truth value or a list where the text is one; else the text itself.
fn typed(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}")).ok();
    match parsed.and_then(|mut table| table.remove("value")) {
        Some(value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Array(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}
