//! What a policy says: how long to wait, how often to try, what a source's hint means.

use std::borrow::Cow;
use std::time::Duration;

/// How the delay grows from one attempt to the next.
#[derive(Debug, Clone, PartialEq)]
pub enum Backoff {
    /// `base × multiplier^(attempt − 1)`, at most `cap`.
    Exponential { base: Duration, multiplier: f64, cap: Duration },
    /// These delays, one after another; there is no attempt after the last.
    Fixed(Vec<Duration>),
}

/// What a source's own retry-after hint means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintRule {
    /// Wait exactly that long, though no less than [`MIN_HINT`], and the try does not count (runs: AR-4).
    ExactAndFree,
    /// Wait at least that long; the attempt counts, because the validator gave a verdict (partitions).
    AtLeast,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    pub backoff: Backoff,
    /// The furthest a delay may be moved either way; where, follows from key and attempt alone.
    pub jitter: Duration,
    pub max_attempts: Option<u32>,
    pub max_age: Option<Duration>,
    pub hint: HintRule,
    /// How long one piece of work may wait by sources' hints without counting an attempt; none means for ever.
    pub rate_limit_budget: Option<Duration>,
}

/// The longest that a source's hint holds anything back, whatever the policy. Longer ones are slips, or mean "never", which
/// is for people to say.
pub const MAX_HINT: Duration = DAY;

/// The shortest wait that a hint stands for. Free waits are bounded by their sum alone, so that a wait of nothing ("come at once", a date
/// that has passed) would never use the budget up.
pub const MIN_HINT: Duration = Duration::from_secs(1);

pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long a source's hint is followed: [`MIN_HINT`] at least, and no longer than `longest`.
pub fn bounded_hint(hint: Duration, longest: Duration) -> Duration {
    hint.min(longest).max(MIN_HINT)
}

impl RetryPolicy {
    /// Partitions of a source: 5 min × 2, cap 6 h, ±30 s, 8 attempts, 30 days.
    pub fn partitions() -> Self {
        Self {
            backoff: Backoff::Exponential { base: 5 * MINUTE, multiplier: 2.0, cap: 6 * HOUR },
            jitter: Duration::from_secs(30),
            max_attempts: Some(8),
            max_age: Some(30 * 24 * HOUR),
            hint: HintRule::AtLeast,
            rate_limit_budget: Some(DAY),
        }
    }

    /// Ingestion of archives: retries after 60, 180 and 600 s.
    pub fn ingest() -> Self {
        Self {
            backoff: Backoff::Fixed(vec![MINUTE, 3 * MINUTE, 10 * MINUTE]),
            jitter: Duration::ZERO,
            max_attempts: None,
            max_age: None,
            hint: HintRule::ExactAndFree,
            rate_limit_budget: Some(DAY),
        }
    }

    /// Jobs: 60 s × 2, cap 1 h, 8 attempts.
    pub fn process() -> Self {
        Self {
            backoff: Backoff::Exponential { base: MINUTE, multiplier: 2.0, cap: HOUR },
            jitter: Duration::ZERO,
            max_attempts: Some(8),
            max_age: None,
            hint: HintRule::ExactAndFree,
            rate_limit_budget: Some(DAY),
        }
    }

    /// The longest that a source's hint may hold back this work: at most a quarter of `max_age`, so that a hint alone never
    /// makes anything too old.
    pub fn longest_hint(&self) -> Duration {
        self.max_age.map_or(MAX_HINT, |max_age| MAX_HINT.min(max_age / 4))
    }

    /// How long a source's hint holds back this work.
    pub fn bounded_hint(&self, hint: Duration) -> Duration {
        bounded_hint(hint, self.longest_hint())
    }

    /// The policy for a run whose submitter may have said how many attempts it has.
    pub fn of_run(&self, max_attempts: Option<u32>) -> Cow<'_, Self> {
        match max_attempts {
            None => Cow::Borrowed(self),
            Some(_) => Cow::Owned(Self { max_attempts, ..self.clone() }),
        }
    }

    /// How many attempts there may be, whichever rule says so. What is wanted is tried once, also by a policy of none.
    pub fn attempt_limit(&self) -> Option<u32> {
        let by_delays = match &self.backoff {
            Backoff::Exponential { .. } => None,
            Backoff::Fixed(delays) => Some(u32::try_from(delays.len()).unwrap_or(u32::MAX).saturating_add(1)),
        };
        let limit = match (by_delays, self.max_attempts) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        limit.map(|limit| limit.max(1))
    }

    /// Whether so many attempts are all that there may be.
    pub fn is_spent(&self, attempts: u32) -> bool {
        self.attempt_limit().is_some_and(|limit| attempts >= limit)
    }

    /// The delay after `attempt` failed attempts (1 for the first), before jitter. Never overflows.
    pub fn delay(&self, attempt: u32) -> Duration {
        match &self.backoff {
            Backoff::Exponential { base, multiplier, cap } => {
                if base.is_zero() {
                    return Duration::ZERO;
                }
                let growth = multiplier.max(1.0).powf(f64::from(attempt.saturating_sub(1)));
                Duration::try_from_secs_f64(base.as_secs_f64() * growth).unwrap_or(Duration::MAX).min(*cap)
            }
            Backoff::Fixed(delays) => {
                let nth = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
                delays.get(nth).or(delays.last()).copied().unwrap_or(Duration::ZERO)
            }
        }
    }

    /// The delay with its jitter, which `seed` and `attempt` fix: every daemon computes the same moment.
    pub fn jittered_delay(&self, attempt: u32, seed: u64) -> Duration {
        let delay = self.delay(attempt);
        let width = u64::try_from(self.jitter.as_micros().saturating_mul(2)).unwrap_or(u64::MAX);
        let moved = match width.checked_add(1) {
            Some(slots) => Duration::from_micros(mix(seed ^ u64::from(attempt).rotate_left(32)) % slots),
            None => self.jitter,
        };
        delay.saturating_add(moved).saturating_sub(self.jitter)
    }
}

/// Spreads a seed over all 64 bits (the finaliser of SplitMix64).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
