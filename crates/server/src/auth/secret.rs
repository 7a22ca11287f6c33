//! Secrets: 256 bits from the operating system, shown once, kept as SHA-256. A slow hash would add nothing to so many bits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::role::Role;
use redrive_store::raw::Sha256;

use crate::error::{Error, Result};

const BYTES: usize = 32;
/// How many letters 256 bits have in base64.
const LETTERS: usize = 43;
const PREFIX: &str = "rdr_";

/// A secret and what is kept of it. Its text is in no log: `Debug` does not show it.
#[derive(Clone)]
pub struct Secret {
    text: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new session's, or a new link's.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| Error::Internal(format!("no random numbers: {error}")))?;
        Ok(Self { text: URL_SAFE_NO_PAD.encode(bytes) })
    }

    /// A new token's: `rdr_<role>_<43 letters>`.
    pub fn token(role: Role) -> Result<Self> {
        Ok(Self { text: format!("{PREFIX}{role}_{}", Self::random()?.text) })
    }

    /// Reads the text of a token. What has another form cannot be one, and is not looked up.
    pub fn read_token(text: &str) -> Option<Self> {
        let (role, letters) = text.strip_prefix(PREFIX)?.split_once('_')?;
        role.parse::<Role>().ok()?;
        Self::read(letters)?;
        Some(Self { text: text.to_owned() })
    }

    /// Reads the text of a session or a link.
    pub fn read(text: &str) -> Option<Self> {
        let is_whole = text.len() == LETTERS && URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == BYTES);
        is_whole.then(|| Self { text: text.to_owned() })
    }

    /// What is kept.
    pub fn hash(&self) -> Sha256 {
        Sha256::of(self.text.as_bytes())
    }

    /// Shows it. This happens once, to whom it is for.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The end by which people know it again.
    pub fn last_four(&self) -> &str {
        &self.text[self.text.len() - 4..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_its_role_and_is_read_as_it_was_written() {
        let token = Secret::token(Role::Operator).unwrap();
        assert!(token.reveal().starts_with("rdr_operator_"), "{}", token.reveal());
        let read = Secret::read_token(token.reveal()).unwrap();
        assert_eq!((read.hash(), read.last_four()), (token.hash(), token.last_four()));
        assert_ne!(Secret::token(Role::Operator).unwrap().hash(), token.hash());
        assert!(!format!("{token:?}").contains(token.last_four()));
    }

    #[test]
    fn what_has_another_form_is_no_token() {
        let token = Secret::token(Role::Viewer).unwrap().reveal().to_owned();
        for wrong in [
            "",
            "rdr_viewer_",
            &token[1..],
            &token[..token.len() - 1],
            &format!("{token}A"),
            &token.replace("viewer", "root"),
            &token.replace("rdr_", "RDR_"),
            &format!(" {token}"),
        ] {
            assert!(Secret::read_token(wrong).is_none(), "{wrong}");
        }
        assert!(Secret::read(&token).is_none(), "a token is no session");
    }
}
