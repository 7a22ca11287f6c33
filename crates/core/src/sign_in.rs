//! How long signs of identity count: tokens of programs, sessions of browsers.

use std::time::Duration;

use crate::time::Timestamp;
use crate::word::words;

/// How long a browser stays signed in without a request, and how long at most.
pub const SESSION_IDLE: Duration = Duration::from_secs(12 * 3600);
pub const SESSION_MOST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How exactly the last use of a token or a session is kept.
pub const USE_IS_KEPT_TO: Duration = Duration::from_secs(60);

words!(
    /// Whether a token still counts.
    TokenState, "token state" {
        Valid = "valid",
        Expired = "expired",
        Revoked = "revoked",
    }
);

/// Says whether a token counts now. One that was revoked is revoked for ever.
pub fn token(expires_at: Timestamp, revoked_at: Option<Timestamp>, now: Timestamp) -> TokenState {
    match revoked_at {
        Some(_) => TokenState::Revoked,
        None if expires_at <= now => TokenState::Expired,
        None => TokenState::Valid,
    }
}

/// Says whether a session counts now.
pub fn session(created_at: Timestamp, last_seen: Timestamp, now: Timestamp) -> bool {
    now < last_seen.saturating_add(SESSION_IDLE) && now < created_at.saturating_add(SESSION_MOST)
}

/// The moment that is kept of a use; none where the one that is kept still serves.
pub fn use_to_keep(kept: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let minute = i64::try_from(USE_IS_KEPT_TO.as_micros()).unwrap_or(i64::MAX);
    let at = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(minute));
    (kept < Some(at)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_token_counts_until_it_expires_or_is_revoked() {
        assert_eq!(token(at(100), None, at(99)), TokenState::Valid);
        assert_eq!(token(at(100), None, at(100)), TokenState::Expired);
        assert_eq!(token(at(100), Some(at(50)), at(60)), TokenState::Revoked);
        assert_eq!(token(at(100), Some(at(50)), at(200)), TokenState::Revoked);
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_after_a_week_however_busy() {
        let (hour, day) = (3600, 24 * 3600);
        assert!(session(at(0), at(0), at(12 * hour - 1)));
        assert!(!session(at(0), at(0), at(12 * hour)));
        assert!(session(at(0), at(7 * day - 60), at(7 * day - 1)));
        assert!(!session(at(0), at(7 * day - 1), at(7 * day)));
    }

    #[test]
    fn a_use_is_kept_once_a_minute() {
        assert_eq!(use_to_keep(None, at(59)), Some(at(0)));
        assert_eq!(use_to_keep(Some(at(0)), at(59)), None);
        assert_eq!(use_to_keep(Some(at(0)), at(61)), Some(at(60)));
        assert_eq!(use_to_keep(Some(at(120)), at(61)), None, "a clock that was set back");
    }
}
