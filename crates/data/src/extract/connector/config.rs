//! A connector's own configuration: a table of ours with placeholders and secrets, written out as JSON, or a file of
//! theirs.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
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
    Secret(Secret<Job>),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
    /// A number, a truth value or nothing.
    Other(Value),
}

impl Config {
    pub(in crate::extract) fn new(
        table: Option<&Map<String, Value>>,
        file: Option<&Path>,
        context: &ExtractorContext,
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
    pub(in crate::extract) async fn file(&self, job: &Job, files: &PrivateFiles) -> Result<PathBuf, Error> {
        match self {
            Self::Table(node) => Ok(files.write("config.json", &node.render(job).await?)?),
            Self::File(file) => Ok(file.clone()),
        }
    }

    pub(in crate::extract) fn secrets(&self, job: &Job) -> Vec<String> {
        self.named_secrets().into_iter().flat_map(|secret| secret.known(job)).collect()
    }

    /// The secrets that cannot be had here, or the file that is not there.
    pub(in crate::extract) fn missing(&self) -> Vec<String> {
        match self {
            Self::Table(_) => self.named_secrets().into_iter().filter_map(Secret::missing).collect(),
            Self::File(file) => missing_file("config_file", file).into_iter().collect(),
        }
    }

    /// The secrets of a job's customer and query that cannot be had here.
    pub(in crate::extract) fn missing_for(&self, job: &Job) -> Vec<String> {
        self.named_secrets().into_iter().filter_map(|secret| secret.missing_for(job)).collect()
    }

    fn named_secrets(&self) -> Vec<&Secret<Job>> {
        let mut secrets = Vec::new();
        match self {
            Self::Table(node) => node.collect_secrets(&mut secrets),
            Self::File(_) => {}
        }
        secrets
    }
}

impl Node {
    fn new(at: Step, value: &Value, context: &ExtractorContext) -> Result<Self, SettingError> {
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
                if let Some(secret) = SecretRef::in_table(table) {
                    return secret.resolve(&context.around).map(Self::Secret).map_err(error);
                }
                let node = |(name, value): (&String, &Value)| {
                    Ok::<_, SettingError>((name.clone(), inner(name.as_str().into(), value)?))
                };
                Self::Table(table.iter().map(node).collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Other(value.clone()),
        })
    }

    fn render<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            Ok(match self {
                Self::Text(template) => Value::from(template.render(job, Escape::Plain)),
                Self::Secret(secret) => Value::from(secret.read(job).await?),
                Self::List(nodes) => {
                    let mut rendered = Vec::with_capacity(nodes.len());
                    for node in nodes {
                        rendered.push(node.render(job).await?);
                    }
                    Value::Array(rendered)
                }
                Self::Table(table) => {
                    let mut rendered = Map::new();
                    for (name, node) in table {
                        rendered.insert(name.clone(), node.render(job).await?);
                    }
                    Value::Object(rendered)
                }
                Self::Other(value) => value.clone(),
            })
        })
    }

    fn collect_secrets<'a>(&'a self, into: &mut Vec<&'a Secret<Job>>) {
        match self {
            Self::Secret(secret) => into.push(secret),
            Self::List(nodes) => nodes.iter().for_each(|node| node.collect_secrets(into)),
            Self::Table(table) => table.iter().for_each(|(_, node)| node.collect_secrets(into)),
            Self::Text(_) | Self::Other(_) => {}
        }
    }
}

/// Has the files of secrets in a connector's table begin in this folder. Its other paths are the connector's own.
pub(in crate::extract) fn start_from(table: &mut Option<Map<String, Value>>, folder: &Path) {
    table.iter_mut().flat_map(Map::values_mut).for_each(|value| move_secrets(value, folder));
}

fn move_secrets(value: &mut Value, folder: &Path) {
    match value {
        Value::Object(table) => match (SecretRef::in_table(table), table.get_mut("file")) {
            (Some(SecretRef::File(path)), Some(file)) => *file = folder.join(path).to_string_lossy().into(),
            (_, _) => table.values_mut().for_each(|value| move_secrets(value, folder)),
        },
        Value::Array(values) => values.iter_mut().for_each(|value| move_secrets(value, folder)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Why a file that settings name cannot be used.
pub(in crate::extract) fn missing_file(key: &str, file: &Path) -> Option<String> {
    file.metadata().err().map(|error| format!("{key} {}: {error}", file.display()))
}

/// The connector may run in another directory than we do.
pub(in crate::extract) fn absolute(key: &str, path: &Path) -> Result<PathBuf, SettingError> {
    std::path::absolute(path)
        .map_err(|error| SettingError::at(key, format!("{:?} is no path: {error}", path.display())))
}
