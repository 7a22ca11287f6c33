//! Values of the configuration that are handed on to programs and servers: a text with placeholders, or a secret.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::duration;
use super::secret::{Secret, SecretCommand, SecretRef};
use super::surroundings::Surroundings;
use super::template::{Escape, Placeholders, Template};
use crate::failure::Failure;

/// As it stands in the configuration: `"text {customer_id}"`, `{ env = "TOKEN", prefix = "Bearer " }`,
/// `{ file = "token.txt" }` or `{ command = ["vault", "read", …], ttl = "5m" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueRef {
    Text(String),
    Secret { secret: SecretRef, prefix: String },
}

impl<'de> Deserialize<'de> for ValueRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written { secret_only: false })
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(Written { secret_only: true })? {
            ValueRef::Secret { secret, .. } => Ok(secret),
            ValueRef::Text(_) => Err(not_named()),
        }
    }
}

/// A value as it is written. Read by hand, because serde's `untagged` would lose the line of an error.
struct Written {
    secret_only: bool,
}

/// What stands there is most likely the secret itself, which serde's own words would repeat.
fn not_named<E: Error>() -> E {
    E::custom(
        "a secret is not written but named; write { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\"] }",
    )
}

impl Written {
    fn other<T, E: Error>(&self, found: Unexpected<'_>) -> Result<T, E> {
        Err(if self.secret_only { not_named() } else { E::invalid_type(found, self) })
    }
}

impl<'de> Visitor<'de> for Written {
    type Value = ValueRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.secret_only { "" } else { "a text, " };
        write!(f, "{text}{{ env = \"NAME\" }}, {{ file = \"PATH\" }} or {{ command = [\"PROGRAM\"] }}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ValueRef, E> {
        if self.secret_only { Err(not_named()) } else { Ok(ValueRef::Text(text.to_owned())) }
    }

    fn visit_bool<E: Error>(self, found: bool) -> Result<ValueRef, E> {
        self.other(Unexpected::Bool(found))
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<ValueRef, E> {
        self.other(Unexpected::Signed(found))
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<ValueRef, E> {
        self.other(Unexpected::Unsigned(found))
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<ValueRef, E> {
        self.other(Unexpected::Other("integer"))
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<ValueRef, E> {
        self.other(Unexpected::Other("integer"))
    }

    fn visit_f64<E: Error>(self, found: f64) -> Result<ValueRef, E> {
        self.other(Unexpected::Float(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ValueRef, A::Error> {
        let named = NamedSecret::deserialize(MapAccessDeserializer::new(map))?;
        if self.secret_only && named.prefix.is_some() {
            return Err(A::Error::unknown_field("prefix", &["env", "file", "command", "ttl", "timeout"]));
        }
        let prefix = named.prefix.clone().unwrap_or_default();
        Ok(ValueRef::Secret { secret: named.secret().map_err(A::Error::custom)?, prefix })
    }
}

/// A secret's name as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSecret {
    env: Option<String>,
    file: Option<PathBuf>,
    command: Option<Vec<String>>,
    prefix: Option<String>,
    #[serde(default, deserialize_with = "duration::option")]
    ttl: Option<Duration>,
    #[serde(default, deserialize_with = "duration::option")]
    timeout: Option<Duration>,
}

impl NamedSecret {
    fn secret(self) -> Result<SecretRef, &'static str> {
        let Self { env, file, command, ttl, timeout, .. } = self;
        if command.is_none() && (ttl.is_some() || timeout.is_some()) {
            return Err("ttl and timeout are for secrets that a command prints; leave them out");
        }
        match (env, file, command) {
            (Some(name), None, None) => Ok(SecretRef::Env(name)),
            (None, Some(path), None) => Ok(SecretRef::File(path)),
            (None, None, Some(command)) => {
                let (ttl, timeout) = (ttl.unwrap_or(SecretRef::TTL), timeout.unwrap_or(SecretRef::TIMEOUT));
                Ok(SecretRef::Command(SecretCommand { command, ttl, timeout, directory: None }))
            }
            _ => Err("a secret has one of env, file and command; keep one of them"),
        }
    }
}

impl SecretRef {
    /// A secret's name in a table of another program's settings: one with nothing else in it.
    pub(crate) fn in_table(table: &serde_json::Map<String, serde_json::Value>) -> Option<Self> {
        let names_one = table.keys().any(|key| matches!(key.as_str(), "env" | "file" | "command"));
        let named: NamedSecret = serde_json::from_value(table.clone().into()).ok().filter(|_| names_one)?;
        named.prefix.is_none().then(|| named.secret().ok()).flatten()
    }
}

#[derive(Debug)]
pub(crate) enum Value<J: Placeholders> {
    Text(Template<J>),
    Secret { secret: Secret<J>, prefix: String },
}

impl ValueRef {
    /// Has a relative path begin in this folder.
    pub fn start_from(&mut self, folder: &Path) {
        match self {
            Self::Text(_) => {}
            Self::Secret { secret, .. } => secret.start_from(folder),
        }
    }

    pub(crate) fn resolve<J: Placeholders>(&self, around: &Surroundings) -> Result<Value<J>, String> {
        match self {
            Self::Text(text) => Template::parse(text).map(Value::Text),
            Self::Secret { secret, prefix } => {
                secret.resolve(around).map(|secret| Value::Secret { secret, prefix: prefix.clone() })
            }
        }
    }
}

impl<J: Placeholders> Value<J> {
    pub(crate) async fn render(&self, job: &J) -> Result<String, Failure> {
        match self {
            Self::Text(template) => Ok(template.render(job, Escape::Plain)),
            Self::Secret { secret, prefix } => Ok(format!("{prefix}{}", secret.read(job).await?)),
        }
    }

    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Self::Secret { .. })
    }

    /// The secret in it, if it is one: what it is, and what it was lately.
    pub(crate) fn secrets(&self, job: &J) -> Vec<String> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Secret { secret, .. } => secret.known(job),
        }
    }

    /// Why the one of a job's customer and query cannot be had here.
    pub(crate) fn missing_for(&self, job: &J) -> Option<String> {
        match self {
            Self::Text(_) => None,
            Self::Secret { secret, .. } => secret.missing_for(job),
        }
    }

    /// Why it cannot be had here.
    pub(crate) fn missing(&self) -> Option<String> {
        match self {
            Self::Text(_) => None,
            Self::Secret { secret, .. } => secret.missing(),
        }
    }
}
