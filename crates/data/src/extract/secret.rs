//! Secrets: named in the configuration, read from the environment or a file, and never shown.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::failure::Failure;
use super::settings::Surroundings;

/// How the configuration names a secret: `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    /// Finds the variable now; a file is read each time the secret is used, so that it can be changed.
    pub fn resolve(&self, surroundings: &Surroundings<'_>) -> Result<Secret, String> {
        match self {
            Self::Env(name) => match (surroundings.variable)(name) {
                Some(value) if !value.is_empty() => Ok(Secret(Kept::Text(value))),
                Some(_) | None => Err(format!("the environment has no {name}; set it, or name a file")),
            },
            Self::File(path) => Ok(Secret(Kept::File(path.clone()))),
        }
    }
}

#[derive(Clone)]
pub struct Secret(Kept);

#[derive(Clone)]
enum Kept {
    Text(String),
    File(PathBuf),
}

impl Secret {
    pub fn read(&self) -> Result<String, Failure> {
        match &self.0 {
            Kept::Text(text) => Ok(text.clone()),
            Kept::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => Err(Failure::retryable(format!("cannot read the secret in {}: {error}", path.display()))),
            },
        }
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

/// The text with every secret in it blacked out, also one of which a cut has left only the beginning.
pub fn redact(text: &str, secrets: &[String]) -> String {
    let mut secrets: Vec<&String> = secrets.iter().filter(|secret| secret.len() >= SHORTEST).collect();
    // A secret that holds another one must go first.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| {
        let whole = text.replace(secret.as_str(), "***");
        let pieces: Vec<&str> = whole.split(CUT).collect();
        let last = pieces.len() - 1;
        let without = |(nth, piece): (usize, &&str)| {
            if nth < last { without_beginning(piece, secret) } else { (*piece).to_owned() }
        };
        pieces.iter().enumerate().map(without).collect::<Vec<_>>().join("…")
    })
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
        assert_eq!(redact("first record: abcdef… and abc…", &secrets), "first record: ***… and abc…");
        assert_eq!(format!("{:?}", Secret(Kept::Text("abcd".to_owned()))), "Secret(…)");
    }
}
