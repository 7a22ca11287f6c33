//! Numbers of things, as the rules and the database count them.

/// A length as a count.
pub fn of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
