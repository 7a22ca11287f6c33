//! When to try again, or why not: one pure function of the failure and the policy.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ErrorClass;
use crate::key::PartitionKey;
use crate::time::Timestamp;
use crate::word::words;

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

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

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

    /// How long a source's hint holds back this work: [`MIN_HINT`] at least, and no longer than the policy allows.
    pub fn bounded_hint(&self, hint: Duration) -> Duration {
        hint.min(self.longest_hint()).max(MIN_HINT)
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

/// How many further attempts a person gives to what has used up its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    Attempts(NonZeroU32),
    /// As many as the policy gives from the start.
    Full,
}

/// A grant is a number of attempts, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number of attempts from 1 on, nor `full`")]
pub struct NotAGrant(String);

impl FromStr for Grant {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Self, NotAGrant> {
        match text {
            "full" => Ok(Self::Full),
            number => number.parse().map(Self::Attempts).map_err(|_| NotAGrant(number.to_owned())),
        }
    }
}

crate::schema::described!(Grant, {"type": "string", "pattern": "^([1-9][0-9]{0,8}|full)$"});

impl TryFrom<String> for Grant {
    type Error = NotAGrant;

    fn try_from(text: String) -> Result<Self, NotAGrant> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempts(number) => write!(f, "{number}"),
            Self::Full => f.write_str("full"),
        }
    }
}

impl RetryPolicy {
    /// What has been granted in all once `grant` is given to what was tried `tried` times and had `before` granted. Attempts
    /// past the limit that nobody granted are forgiven first, so that there are as many further attempts as are given now. A
    /// policy without a limit has nothing to grant.
    pub fn granted(&self, grant: Grant, tried: u32, before: u32) -> u32 {
        let Some(limit) = self.attempt_limit() else { return before };
        let further = match grant {
            Grant::Attempts(number) => number.get(),
            Grant::Full => limit,
        };
        before.max(tried.saturating_sub(limit)).saturating_add(further)
    }
}

words!(
    /// Why there is no further attempt.
    StopReason, "stop reason" {
        FinalError = "final_error",
        AttemptsExhausted = "attempts_exhausted",
        TooOld = "too_old",
    }
);

/// A failed attempt, as the policy looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub at: Timestamp,
    pub class: ErrorClass,
    /// When the source said to come back.
    pub retry_after: Option<Duration>,
    /// Attempts that counted so far, this one included.
    pub attempt: u32,
    /// How long it has waited by sources' hints already.
    pub rate_limit_waited: Duration,
    /// How long the work has been wanted.
    pub age: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    At { when: Timestamp, counts: bool },
    Stop(StopReason),
}

/// When to try again after `failure`, or why not.
pub fn next(failure: &Failure, policy: &RetryPolicy) -> Decision {
    match failure.class {
        ErrorClass::Final => return Decision::Stop(StopReason::FinalError),
        ErrorClass::Retryable | ErrorClass::RateLimited => {}
    }
    if policy.max_age.is_some_and(|limit| failure.age >= limit) {
        return Decision::Stop(StopReason::TooOld);
    }
    let hint = match failure.class {
        ErrorClass::RateLimited => failure.retry_after.map(|hint| policy.bounded_hint(hint)),
        ErrorClass::Final | ErrorClass::Retryable => None,
    };
    if let (Some(hint), HintRule::ExactAndFree) = (hint, policy.hint)
        && is_within(policy.rate_limit_budget, failure.rate_limit_waited.saturating_add(hint))
    {
        return Decision::At { when: failure.at.saturating_add(hint), counts: false };
    }
    if policy.is_spent(failure.attempt) {
        return Decision::Stop(StopReason::AttemptsExhausted);
    }
    let delay = policy.jittered_delay(failure.attempt, failure.seed).max(hint.unwrap_or(Duration::ZERO));
    Decision::At { when: failure.at.saturating_add(delay), counts: true }
}

/// Whether a source's hint may be followed without counting an attempt: what the work has waited so already and the hint
/// are together within the budget.
pub fn is_within(budget: Option<Duration>, waited: Duration) -> bool {
    budget.is_none_or(|budget| waited <= budget)
}

/// What fixes a partition's jitter. FNV-1a, so that it never changes with a library.
pub fn seed(key: &PartitionKey) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    key.digest_into(|bytes| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    });
    hash
}

/// Spreads a seed over all 64 bits (the finaliser of SplitMix64).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failure(class: ErrorClass, attempt: u32) -> Failure {
        Failure {
            at: Timestamp::from_micros(0),
            class,
            retry_after: None,
            attempt,
            rate_limit_waited: Duration::ZERO,
            age: Duration::ZERO,
            seed: 7,
        }
    }

    fn seconds(decision: Decision) -> Option<u64> {
        match decision {
            Decision::At { when, .. } => Some(when.since(Timestamp::from_micros(0)).as_secs()),
            Decision::Stop(_) => None,
        }
    }

    #[test]
    fn jobs_double_from_a_minute_to_an_hour_in_eight_attempts() {
        let delays: Vec<_> =
            (1..=8).map(|n| seconds(next(&failure(ErrorClass::Retryable, n), &RetryPolicy::process()))).collect();
        let expected = [60, 120, 240, 480, 960, 1920, 3600].map(Some).into_iter().chain([None]);
        assert_eq!(delays, expected.collect::<Vec<_>>());
        assert_eq!(
            next(&failure(ErrorClass::Retryable, 8), &RetryPolicy::process()),
            Decision::Stop(StopReason::AttemptsExhausted)
        );
    }

    #[test]
    fn archives_are_retried_three_times() {
        let delays: Vec<_> =
            (1..=4).map(|n| seconds(next(&failure(ErrorClass::Retryable, n), &RetryPolicy::ingest()))).collect();
        assert_eq!(delays, [Some(60), Some(180), Some(600), None]);
    }

    #[test]
    fn partitions_double_from_five_minutes_to_six_hours_within_thirty_seconds() {
        let policy = RetryPolicy { max_attempts: None, ..RetryPolicy::partitions() };
        for (attempt, minutes) in [(1, 5), (2, 10), (3, 20), (7, 320), (8, 360), (1_000_000, 360)] {
            let delay = seconds(next(&failure(ErrorClass::Retryable, attempt), &policy)).unwrap();
            assert!(delay.abs_diff(minutes * 60) <= 30, "attempt {attempt}: {delay} s");
        }
    }

    #[test]
    fn a_final_error_is_never_retried() {
        for policy in [RetryPolicy::partitions(), RetryPolicy::ingest(), RetryPolicy::process()] {
            assert_eq!(next(&failure(ErrorClass::Final, 1), &policy), Decision::Stop(StopReason::FinalError));
        }
    }

    #[test]
    fn a_hint_is_exact_and_free_for_runs_and_a_lower_bound_for_partitions() {
        let hinted = Failure { retry_after: Some(Duration::from_secs(7)), ..failure(ErrorClass::RateLimited, 8) };
        let free = Decision::At { when: Timestamp::from_micros(7_000_000), counts: false };
        assert_eq!(next(&hinted, &RetryPolicy::process()), free);
        let early = Failure { attempt: 1, ..hinted };
        assert!(seconds(next(&early, &RetryPolicy::partitions())).unwrap() >= 270);
        let late = Failure { attempt: 1, retry_after: Some(Duration::from_secs(40_591)), ..hinted };
        assert_eq!(seconds(next(&late, &RetryPolicy::partitions())), Some(40_591));
        assert_eq!(next(&hinted, &RetryPolicy::partitions()), Decision::Stop(StopReason::AttemptsExhausted));
        let unhinted = failure(ErrorClass::RateLimited, 2);
        assert_eq!(seconds(next(&unhinted, &RetryPolicy::process())), Some(120));
        let retryable = Failure { retry_after: Some(Duration::from_secs(7)), ..failure(ErrorClass::Retryable, 1) };
        assert_eq!(seconds(next(&retryable, &RetryPolicy::process())), Some(60), "only rate limits carry a hint");
    }

    #[test]
    fn hints_are_free_until_the_budget_is_spent_and_count_from_then_on() {
        let hinted = |waited, attempt| Failure {
            retry_after: Some(HOUR),
            rate_limit_waited: waited,
            ..failure(ErrorClass::RateLimited, attempt)
        };
        let policy = RetryPolicy::process();
        let free = Decision::At { when: Timestamp::from_micros(3_600_000_000), counts: false };
        assert_eq!(next(&hinted(23 * HOUR, 1), &policy), free);
        let counted = Decision::At { when: Timestamp::from_micros(3_600_000_000), counts: true };
        assert_eq!(next(&hinted(23 * HOUR + MINUTE, 1), &policy), counted, "no sooner than the hint says");
        assert_eq!(next(&hinted(24 * HOUR, 8), &policy), Decision::Stop(StopReason::AttemptsExhausted));
        let boundless = RetryPolicy { rate_limit_budget: None, ..policy };
        assert_eq!(next(&hinted(1000 * HOUR, 8), &boundless), free);
    }

    #[test]
    fn a_hint_of_nothing_still_waits_and_uses_the_budget_up() {
        let policy = RetryPolicy { rate_limit_budget: Some(MINUTE), ..RetryPolicy::process() };
        for hint in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(999)] {
            let limited = Failure { retry_after: Some(hint), ..failure(ErrorClass::RateLimited, 8) };
            assert_eq!(
                next(&limited, &policy),
                Decision::At { when: Timestamp::from_micros(1_000_000), counts: false },
                "{hint:?}"
            );
            let spent = Failure { rate_limit_waited: MINUTE, ..limited };
            assert_eq!(next(&spent, &policy), Decision::Stop(StopReason::AttemptsExhausted), "{hint:?}");
        }
    }

    #[test]
    fn a_run_may_have_fewer_or_more_attempts_than_its_policy() {
        let policy = RetryPolicy::process();
        let stops_at = |max_attempts, attempt| {
            next(&failure(ErrorClass::Retryable, attempt), &policy.of_run(max_attempts))
                == Decision::Stop(StopReason::AttemptsExhausted)
        };
        assert!(stops_at(Some(1), 1) && stops_at(None, 8) && stops_at(Some(20), 20));
        assert!(!stops_at(Some(2), 1) && !stops_at(None, 7) && !stops_at(Some(20), 19));
    }

    #[test]
    fn a_grant_is_a_number_or_full() {
        for text in ["1", "8", "full"] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        for wrong in ["0", "-1", "", "all", "1.5"] {
            let error = wrong.parse::<Grant>().unwrap_err().to_string();
            assert!(error.contains("number of attempts from 1 on"), "{error}");
        }
    }

    #[test]
    fn work_past_its_age_stops() {
        let old = Failure { age: Duration::from_secs(30 * 86_400), ..failure(ErrorClass::Retryable, 1) };
        assert_eq!(next(&old, &RetryPolicy::partitions()), Decision::Stop(StopReason::TooOld));
    }

    #[test]
    fn a_partitions_seed_never_changes() {
        let key = PartitionKey::new("ads", "111-111-1111", "campaign_daily", "2026-01-01").unwrap();
        assert_eq!(seed(&key), 0x125f_8bdd_bd90_d232);
    }

    proptest! {
        #[test]
        fn nothing_overflows_and_the_delay_stays_within_cap_and_jitter(
            base in 0u64.., cap in 0u64.., jitter in 0u64.., multiplier in any::<f64>(),
            attempt in any::<u32>(), seed in any::<u64>(), at in any::<i64>(), hint in proptest::option::of(0u64..),
        ) {
            let (base, cap, jitter) = (Duration::from_secs(base), Duration::from_secs(cap), Duration::from_secs(jitter));
            let policy = RetryPolicy {
                backoff: Backoff::Exponential { base, multiplier, cap }, jitter, max_attempts: None, max_age: None,
                hint: HintRule::AtLeast, rate_limit_budget: None,
            };
            let delay = policy.jittered_delay(attempt, seed);
            prop_assert!(delay <= cap.saturating_add(jitter));
            prop_assert!(delay >= policy.delay(attempt).saturating_sub(jitter));
            prop_assert_eq!(delay, policy.jittered_delay(attempt, seed));
            let failure = Failure {
                at: Timestamp::from_micros(at), class: ErrorClass::RateLimited,
                retry_after: hint.map(Duration::from_secs), attempt, rate_limit_waited: Duration::ZERO, age: Duration::MAX, seed,
            };
            let Decision::At { when, .. } = next(&failure, &policy) else { panic!("nothing stops this policy") };
            prop_assert!(when >= failure.at);
        }

        #[test]
        fn a_source_that_limits_for_ever_is_asked_a_bounded_number_of_times(
            hint in 0u64..5_000_000, budget in 0u64..100, limit in 1u32..5,
        ) {
            let policy = RetryPolicy {
                rate_limit_budget: Some(Duration::from_secs(budget)), max_attempts: Some(limit), ..RetryPolicy::process()
            };
            let (mut attempt, mut waited, mut tries) = (1, Duration::ZERO, 0);
            loop {
                tries += 1;
                prop_assert!(tries <= budget + u64::from(limit), "it goes on for ever");
                let failure = Failure {
                    retry_after: Some(Duration::from_micros(hint)), rate_limit_waited: waited,
                    ..failure(ErrorClass::RateLimited, attempt)
                };
                match next(&failure, &policy) {
                    Decision::At { when, counts: false } => waited += when.since(failure.at),
                    Decision::At { counts: true, .. } => attempt += 1,
                    Decision::Stop(_) => break,
                }
            }
        }

        /// However often it was tried, and whatever was granted before, a grant gives exactly what it says to what has none left.
        #[test]
        fn a_grant_gives_exactly_so_many_further_attempts(
            limit in 0u32..9, tried in 1u32..40, before in 0u32..20, further in 1u32..9, full: bool,
        ) {
            let policy = RetryPolicy { max_attempts: Some(limit), ..RetryPolicy::partitions() };
            let grant = if full { Grant::Full } else { Grant::Attempts(NonZeroU32::new(further).unwrap()) };
            let left = |tried: u32, granted: u32| (0..).take_while(|more| !policy.is_spent((tried + more).saturating_sub(granted))).count();
            let given = if full { limit.max(1) } else { further };
            let granted = policy.granted(grant, tried, before);
            prop_assert_eq!(left(tried, granted), left(tried, before) + usize::try_from(given).unwrap());
        }

        #[test]
        fn later_attempts_never_wait_less(attempt in 1u32..1_000, base in 1u64..1_000, multiplier in 0.0f64..10.0) {
            let policy = RetryPolicy {
                backoff: Backoff::Exponential { base: Duration::from_secs(base), multiplier, cap: 6 * HOUR },
                ..RetryPolicy::partitions()
            };
            prop_assert!(policy.delay(attempt) <= policy.delay(attempt + 1));
        }
    }
}
