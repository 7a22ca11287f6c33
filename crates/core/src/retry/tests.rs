use proptest::prelude::*;

use super::policy::{HOUR, MINUTE};
use super::*;

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

    #[test]
    fn later_attempts_never_wait_less(attempt in 1u32..1_000, base in 1u64..1_000, multiplier in 0.0f64..10.0) {
        let policy = RetryPolicy {
            backoff: Backoff::Exponential { base: Duration::from_secs(base), multiplier, cap: 6 * HOUR },
            ..RetryPolicy::partitions()
        };
        prop_assert!(policy.delay(attempt) <= policy.delay(attempt + 1));
    }
}
