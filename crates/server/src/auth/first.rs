//! The link for the first sign-in: printed by a server that others can reach and that has no token yet. It serves once, for ten
//! minutes. Its secret is in the fragment, which browsers send nowhere.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_core::time::Timestamp;
use redrive_store::raw::Sha256;
use subtle::ConstantTimeEq as _;

use super::secret::Secret;
use crate::error::Result;

const LASTS: Duration = Duration::from_secs(600);

/// A link that has not been followed yet; none where none was made, or where it was.
#[derive(Debug, Default)]
pub struct FirstLink(Mutex<Option<(Sha256, Timestamp)>>);

impl FirstLink {
    /// Makes the link; gives its secret.
    pub fn make(&self, now: Timestamp) -> Result<Secret> {
        let secret = Secret::random()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((secret.hash(), now.saturating_add(LASTS)));
        Ok(secret)
    }

    /// Whether a text is the link's secret. It is so once.
    pub fn take(&self, text: &str, now: Timestamp) -> bool {
        let mut link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((hash, until)) = *link else { return false };
        let given = Secret::read(text).map(|secret| secret.hash());
        let fits = given.is_some_and(|given| bool::from(given.bytes().ct_eq(hash.bytes()))) && now < until;
        if fits {
            *link = None;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_serves_once_and_for_ten_minutes() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let link = FirstLink::default();
        assert!(!link.take("", at(0)));
        let secret = link.make(at(0)).unwrap();
        assert!(!link.take(Secret::random().unwrap().reveal(), at(1)));
        assert!(link.take(secret.reveal(), at(599)));
        assert!(!link.take(secret.reveal(), at(599)), "it was followed");
        let late = link.make(at(0)).unwrap();
        assert!(!link.take(late.reveal(), at(600)));
    }
}
