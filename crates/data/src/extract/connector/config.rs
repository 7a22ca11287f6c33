//! A connector's own configuration: a table of ours with placeholders and secrets, written out as JSON, or a file of
//! theirs.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::files::PrivateFiles;
use crate::extract::{Error, ExtractorContext, Failure, Job, Template};
use crate::settings::{Escape, Secret, SecretRef, SettingError, Step};

#[derive(Debug)]
pub(in crate::extract) enum Config {
    Table(Node),
    File(PathBuf),
}

#[derive(Debug)]
pub(in crate::extract) enum Node {
    Text(Template),
    Secret(Secret),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
    /// A number, a truth value or nothing.
    Other(Value),
}

impl Config {
    pub(in crate::extract) fn new(
        table: Option<&Map<String, Value>>,
        file: Option<&Path>,
        context: &ExtractorContext<'_>,
    ) -> Result<Self, SettingError> {
        match (table, file) {
            (Some(_), Some(_)) => {
                let why = "config and config_file are both there; keep one of them";
                Err(SettingError::at("config_file", why).also(&["config"]))
            }
            (None, Some(file)) => absolute("config_file", file).map(Self::File),
            (table, None) => {
                let table = table.cloned().unwrap_or_default();
                Node::new("config".into(), &Value::Object(table), context).map(Self::Table)
            }
        }
    }

    /// The file to name on the command line.
    pub(in crate::extract) fn file(&self, job: &Job, files: &PrivateFiles) -> Result<PathBuf, Error> {
        match self {
            Self::Table(node) => Ok(files.write("config.json", &node.render(job)?)?),
            Self::File(file) => Ok(file.clone()),
        }
    }

    pub(in crate::extract) fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        match self {
            Self::Table(node) => node.collect_secrets(&mut secrets),
            Self::File(_) => {}
        }
        secrets
    }
}

impl Node {
    fn new(at: Step, value: &Value, context: &ExtractorContext<'_>) -> Result<Self, SettingError> {
        let error = |why: String| SettingError::at(at.clone(), why);
        let inner =
            |step: Step, value: &Value| Self::new(step, value, context).map_err(|error| error.within(at.clone()));
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(text).map_err(error)?),
            Value::Array(values) => {
                let node = |(index, value): (usize, &Value)| inner(index.into(), value);
                Self::List(values.iter().enumerate().map(node).collect::<Result<_, _>>()?)
            }
            Value::Object(table) => {
                if let Some(secret) = secret_ref(table) {
                    return secret.resolve(context.variable).map(Self::Secret).map_err(error);
                }
                let node = |(name, value): (&String, &Value)| {
                    Ok::<_, SettingError>((name.clone(), inner(name.as_str().into(), value)?))
                };
                Self::Table(table.iter().map(node).collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Other(value.clone()),
        })
    }

    fn render(&self, job: &Job) -> Result<Value, Failure> {
        Ok(match self {
            Self::Text(template) => Value::from(template.render(job, Escape::Plain)),
            Self::Secret(secret) => Value::from(secret.read()?),
            Self::List(nodes) => Value::Array(nodes.iter().map(|node| node.render(job)).collect::<Result<_, _>>()?),
            Self::Table(table) => {
                let rendered = table.iter().map(|(name, node)| Ok::<_, Failure>((name.clone(), node.render(job)?)));
                Value::Object(rendered.collect::<Result<_, _>>()?)
            }
            Self::Other(value) => value.clone(),
        })
    }

    fn collect_secrets(&self, into: &mut Vec<String>) {
        match self {
            Self::Secret(secret) => into.extend(secret.known()),
            Self::List(nodes) => nodes.iter().for_each(|node| node.collect_secrets(into)),
            Self::Table(table) => table.iter().for_each(|(_, node)| node.collect_secrets(into)),
            Self::Text(_) | Self::Other(_) => {}
        }
    }
}

/// A table with nothing in it but `env = "NAME"` or `file = "PATH"` names a secret.
fn secret_ref(table: &Map<String, Value>) -> Option<SecretRef> {
    let (name, value) = table.iter().next().filter(|_| table.len() == 1)?;
    match (name.as_str(), value) {
        ("env", Value::String(name)) => Some(SecretRef::Env(name.clone())),
        ("file", Value::String(path)) => Some(SecretRef::File(path.into())),
        _ => None,
    }
}

/// The connector may run in another directory than we do.
pub(in crate::extract) fn absolute(key: &str, path: &Path) -> Result<PathBuf, SettingError> {
    std::path::absolute(path)
        .map_err(|error| SettingError::at(key, format!("{:?} is no path: {error}", path.display())))
}
