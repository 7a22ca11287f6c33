//! Secrets: named in the configuration, read from the environment or a file, and never shown.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::failure::Failure;
use super::settings::Surroundings;
use super::used_secrets::UsedSecrets;

/// How the configuration names a secret: `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = SecretRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ env = \"NAME\" } or { file = \"PATH\" }")
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<SecretRef, E> {
        written()
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<SecretRef, E> {
        written()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<SecretRef, E> {
        written()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<SecretRef, E> {
        written()
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<SecretRef, E> {
        written()
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<SecretRef, E> {
        written()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<SecretRef, E> {
        written()
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SecretRef, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            env: Option<String>,
            file: Option<PathBuf>,
        }
        let Named { env, file } = Named::deserialize(MapAccessDeserializer::new(map))?;
        SecretRef::named(env, file).map_err(A::Error::custom)
    }
}

/// What stands there is most likely the secret itself, which serde's own words would repeat.
fn written<E: serde::de::Error>() -> Result<SecretRef, E> {
    Err(E::custom("a secret is not written but named; write { env = \"NAME\" } or { file = \"PATH\" }"))
}

impl SecretRef {
    pub(super) fn named(env: Option<String>, file: Option<PathBuf>) -> Result<Self, &'static str> {
        match (env, file) {
            (Some(name), None) => Ok(Self::Env(name)),
            (None, Some(path)) => Ok(Self::File(path)),
            (Some(_), Some(_)) | (None, None) => Err("a secret has either env or file; keep one of them"),
        }
    }

    /// Finds the variable now; a file is read each time the secret is used, so that it can be changed.
    pub fn resolve(&self, surroundings: &Surroundings<'_>) -> Result<Secret, String> {
        match self {
            Self::Env(name) => match (surroundings.variable)(name) {
                Some(value) if !value.is_empty() => Ok(Secret::new(Kept::Text(value))),
                Some(_) | None => Err(format!("the environment has no {name}; set it, or name a file")),
            },
            Self::File(path) => Ok(Secret::new(Kept::File(path.clone()))),
        }
    }
}

#[derive(Clone)]
pub struct Secret {
    kept: Kept,
    /// A file may change between its use and the moment when its text must be blacked out.
    used: Arc<UsedSecrets>,
}

#[derive(Clone)]
enum Kept {
    Text(String),
    File(PathBuf),
}

impl Secret {
    fn new(kept: Kept) -> Self {
        Self { kept, used: Arc::default() }
    }

    pub fn read(&self) -> Result<String, Failure> {
        let text = match &self.kept {
            Kept::Text(text) => text.clone(),
            Kept::File(path) => {
                let cannot = |error| format!("cannot read the secret in {}: {error}", path.display());
                let text = std::fs::read_to_string(path).map_err(|error| Failure::retryable(cannot(error)))?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        self.used.remember(&text);
        Ok(text)
    }

    /// What it is, and what it was whenever it was read lately.
    pub fn known(&self) -> Vec<String> {
        let _ = self.read();
        self.used.all()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(Kept::Text("abcd".to_owned()))), "Secret(…)");
    }

    #[test]
    fn a_file_that_was_changed_is_still_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let secret = Secret::new(Kept::File(file.path().to_owned()));
        std::fs::write(file.path(), "first-one\n").unwrap();
        assert_eq!(secret.read().unwrap(), "first-one");
        std::fs::write(file.path(), "second-one\n").unwrap();
        assert_eq!(secret.known(), ["first-one", "second-one"]);
    }
}
