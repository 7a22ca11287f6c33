//! How long what could go to the database alone waits for company.

use std::time::Duration;

/// The longest wait, however long the database takes.
pub(super) const LONGEST: Duration = Duration::from_millis(10);

/// No longer than the last call took: so the wait at most doubles the time of the next.
pub(super) fn wait_for_more(last_took: Duration) -> Duration {
    last_took.min(LONGEST)
}
