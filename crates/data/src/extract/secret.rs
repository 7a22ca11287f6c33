//! Secrets: named in the configuration, read from the environment or a file, and never shown.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::utf8_percent_encode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::failure::Failure;
use super::settings::Surroundings;
use super::template::URL;
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

    /// Most likely the secret itself, which serde's own words would repeat.
    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<SecretRef, E> {
        Err(E::custom("a secret is not written but named; write { env = \"NAME\" } or { file = \"PATH\" }"))
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

/// Shorter ones would black out half of any text.
const SHORTEST: usize = 4;

/// What stands where a text was cut short.
const CUT: char = '…';

/// The text with every secret in it blacked out: as it is, as programs quote it, and one of which a cut has left only
/// the beginning.
pub fn redact(text: &str, secrets: &[String]) -> String {
    let mut secrets: Vec<String> = secrets.iter().filter(|secret| secret.len() >= SHORTEST).flat_map(forms).collect();
    // A secret that holds another one must go first.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| black_out(&text, secret))
}

fn black_out(text: &str, secret: &str) -> String {
    let whole = text.replace(secret, "***");
    let pieces: Vec<&str> = whole.split(CUT).collect();
    let (last, before) = pieces.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
    let before = before.iter().map(|piece| format!("{}{CUT}", without_beginning(piece, secret)));
    before.chain([last.to_owned()]).collect()
}

/// A secret as it may be written: plain, inside quotes with its backslashes and quotes escaped, and in a URL.
fn forms(secret: &String) -> Vec<String> {
    let json = serde_json::Value::from(secret.as_str()).to_string();
    let slashes = secret.replace('\\', r"\\");
    let mut forms = vec![
        secret.clone(),
        json[1..json.len() - 1].to_owned(),
        slashes.replace('\'', r"\'"),
        slashes,
        utf8_percent_encode(secret, URL).to_string(),
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
    ];
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The text without the beginning of a secret at its end.
fn without_beginning(text: &str, secret: &str) -> String {
    let lengths = (SHORTEST..secret.len()).rev().filter(|&length| secret.is_char_boundary(length));
    match lengths.map(|length| &secret[..length]).find(|beginning| text.ends_with(beginning)) {
        Some(beginning) => format!("{}***", &text[..text.len() - beginning.len()]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blacked_out_wherever_they_stand() {
        let secrets = ["abcd".to_owned(), "abcdefgh".to_owned(), String::new(), "x".to_owned()];
        assert_eq!(redact("x=abcdefgh&y=abcd", &secrets), "x=***&y=***");
        assert_eq!(redact("first record: abcdef… and abc…", &["abcdefgh".to_owned()]), "first record: ***… and abc…");
        assert_eq!(format!("{:?}", Secret::new(Kept::Text("abcd".to_owned()))), "Secret(…)");
    }

    #[test]
    fn secrets_are_blacked_out_however_they_are_quoted() {
        let secret = r#"s3cr"et\T0K'N/with+odd&chars%20="#.to_owned();
        let debug = format!("{secret:?}");
        let json = serde_json::Value::from(secret.as_str()).to_string();
        let repr = format!("'{}'", secret.replace('\\', r"\\").replace('\'', r"\'"));
        let url = utf8_percent_encode(&secret, URL).to_string();
        let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for said in [&secret, &debug, &json, &repr, &url, &form] {
            let shown = redact(&format!("bad token {said} refused"), std::slice::from_ref(&secret));
            assert!(shown.contains("***") && !shown.contains("T0K"), "{shown}");
        }
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
