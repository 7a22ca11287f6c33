//! Values of the configuration that are handed on to programs and servers: a text with placeholders, or a secret.

use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::secret::{Secret, SecretRef, Variables};
use super::template::{Escape, Placeholders, Template};
use crate::failure::Failure;

/// As it stands in the configuration: `"text {customer_id}"`, `{ env = "TOKEN", prefix = "Bearer " }` or
/// `{ file = "token.txt" }`.
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
    E::custom("a secret is not written but named; write { env = \"NAME\" } or { file = \"PATH\" }")
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
        write!(f, "{text}{{ env = \"NAME\" }} or {{ file = \"PATH\" }}")
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
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            env: Option<String>,
            file: Option<PathBuf>,
            prefix: Option<String>,
        }
        let Named { env, file, prefix } = Named::deserialize(MapAccessDeserializer::new(map))?;
        if self.secret_only && prefix.is_some() {
            return Err(A::Error::unknown_field("prefix", &["env", "file"]));
        }
        let secret = match (env, file) {
            (Some(name), None) => SecretRef::Env(name),
            (None, Some(path)) => SecretRef::File(path),
            (Some(_), Some(_)) | (None, None) => {
                return Err(A::Error::custom("a secret has either env or file; keep one of them"));
            }
        };
        Ok(ValueRef::Secret { secret, prefix: prefix.unwrap_or_default() })
    }
}

#[derive(Debug)]
pub(crate) enum Value<J: Placeholders> {
    Text(Template<J>),
    Secret { secret: Secret, prefix: String },
}

impl ValueRef {
    pub(crate) fn resolve<J: Placeholders>(&self, variable: Variables<'_>) -> Result<Value<J>, String> {
        match self {
            Self::Text(text) => Template::parse(text).map(Value::Text),
            Self::Secret { secret, prefix } => {
                secret.resolve(variable).map(|secret| Value::Secret { secret, prefix: prefix.clone() })
            }
        }
    }
}

impl<J: Placeholders> Value<J> {
    pub(crate) fn render(&self, job: &J) -> Result<String, Failure> {
        match self {
            Self::Text(template) => Ok(template.render(job, Escape::Plain)),
            Self::Secret { secret, prefix } => Ok(format!("{prefix}{}", secret.read()?)),
        }
    }

    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Self::Secret { .. })
    }

    /// The secret in it, if it is one: what it is, and what it was lately.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Secret { secret, .. } => secret.known(),
        }
    }
}
