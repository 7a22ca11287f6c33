//! Values of the configuration that an extractor hands on: a text with placeholders, or a secret.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Escape, Failure, Job, Secret, SecretRef, Surroundings, Template};

/// As it stands in the configuration.
#[derive(Debug, Clone)]
pub enum ValueRef {
    Text(String),
    Secret(SecretRef),
}

impl<'de> Deserialize<'de> for ValueRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// By hand, because serde's `untagged` would lose the line of a mistake.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ValueRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, { env = \"NAME\" } or { file = \"PATH\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ValueRef, E> {
        Ok(ValueRef::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ValueRef, A::Error> {
        SecretRef::deserialize(MapAccessDeserializer::new(map)).map(ValueRef::Secret)
    }
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
