//! Values of the configuration that an extractor hands on: a text with placeholders, or a secret.

use serde::Deserialize;

use super::{Escape, Failure, Job, Secret, SecretRef, Surroundings, Template};

/// As it stands in the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text, { env = \"NAME\" } or { file = \"PATH\" }")]
pub enum ValueRef {
    Text(String),
    Secret(SecretRef),
}

#[derive(Debug)]
pub(super) enum Value {
    Text(Template),
    Secret(Secret),
}

impl ValueRef {
    pub(super) fn resolve(&self, surroundings: &Surroundings<'_>) -> Result<Value, String> {
        match self {
            Self::Text(text) => Template::parse(text).map(Value::Text),
            Self::Secret(secret) => secret.resolve(surroundings).map(Value::Secret),
        }
    }
}

impl Value {
    pub(super) fn render(&self, job: &Job) -> Result<String, Failure> {
        match self {
            Self::Text(template) => Ok(template.render(job, Escape::Plain)),
            Self::Secret(secret) => secret.read(),
        }
    }

    /// The secret in it, if it is one: what it is, and what it was lately.
    pub(super) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Secret(secret) => secret.known(),
        }
    }
}
