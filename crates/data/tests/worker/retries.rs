//! When jobs are tried again: by their class, their section's policy and nothing else. Time stands still between steps.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{State, Verdict, Workload as Kind};
use redrive_data::process::{Failure, Section};
use redrive_store::RunClaim;

use crate::house::TestDataPlane;
use crate::told::{Act, Told, base, section};

/// AR-2
async fn a_final_error_is_not_tried_again(house: TestDataPlane) {
    let clock = house.clock.hold();
    let id = house.submit_jobs("a", 1).await[0];
    let handler = Told::to(|_| Act::Fail(Failure::fatal("no such file")));
    for _ in 0..3 {
        house.drain_jobs(vec![section("a", handler.clone())]).await;
        clock.advance(Duration::from_secs(86_400));
    }
    let run = house.run(id).await;
    assert_eq!((run.state, run.error_class, run.next_retry_at), (State::Dead, Some(ErrorClass::Final), None));
    assert_eq!((run.attempt, run.retry_count, handler.asked()), (1, 0, 1));
}

/// AR-3, AR-5: 60 s × 2 up to 1 h, 8 attempts, and then an error that nobody waits for.
async fn a_retryable_error_backs_off_until_its_attempts_are_exhausted(house: TestDataPlane) {
    let clock = house.clock.hold();
    let id = house.submit_jobs("a", 1).await[0];
    let handler = Told::to(|_| Act::Fail(Failure::retryable("connection reset")));
    let sections = || vec![section("a", handler.clone())];
    for (nth, delay) in [60, 120, 240, 480, 960, 1920, 3600].into_iter().enumerate() {
        assert_eq!(house.drain_jobs(sections()).await.rejected, 1);
        let run = house.run(id).await;
        assert_eq!((run.state, usize::try_from(run.retry_count).unwrap()), (State::Waiting, nth + 1));
        assert_eq!(run.next_retry_at.unwrap().since(house.store.now()), Duration::from_secs(delay));
        clock.advance(Duration::from_secs(delay - 1));
        assert_eq!(house.drain_jobs(sections()).await.claimed, 0, "it is not due yet");
        clock.advance(Duration::from_secs(1));
    }
    house.drain_jobs(sections()).await;
    let run = house.run(id).await;
    assert_eq!((run.state, run.next_retry_at, handler.asked()), (State::Dead, None, 8));
    assert_eq!(house.store.view().run_failures(id).await.unwrap().len(), 8);
}

/// AR-4: exactly as long as the hint says, and it does not count.
async fn a_rate_limit_with_a_hint_waits_exactly_that_and_does_not_count(house: TestDataPlane) {
    let clock = house.clock.hold();
    let id = house.submit_jobs("a", 1).await[0];
    let handler = Told::to(|job| match job.attempt() {
        1 | 2 => Act::Fail(Failure::rate_limited("slow down", Some(Duration::from_secs(17)))),
        3 => Act::Fail(Failure::rate_limited("slow down", None)),
        _ => Act::Pass,
    });
    let sections = || vec![section("a", handler.clone())];
    for (delay, retry_count) in [(17, 0), (17, 0), (60, 1)] {
        assert_eq!(house.drain_jobs(sections()).await.rate_limited, 1);
        let run = house.run(id).await;
        assert_eq!(run.next_retry_at.unwrap().since(house.store.now()), Duration::from_secs(delay));
        assert_eq!((run.retry_count, run.error_class), (retry_count, Some(ErrorClass::RateLimited)));
        clock.advance(Duration::from_secs(delay));
    }
    house.drain_jobs(sections()).await;
    let run = house.run(id).await;
    // AR-6: a retry that succeeds clears what the failures left.
    assert_eq!((run.state, run.verdict, run.retry_count), (State::Done, Some(Verdict::Passed), 0));
    assert_eq!((run.error_class, run.error_message, run.next_retry_at), (None, None, None));
}

/// Each section has its own policy; the sweep goes by the one that names the run's category, whoever serves it.
async fn a_silent_workers_jobs_are_ended_by_the_policy_of_their_section(house: TestDataPlane) {
    let clock = house.clock.hold();
    let mut ids = Vec::new();
    for category in ["a", "b", "unnamed"] {
        ids.extend(house.submit_jobs(category, 1).await);
    }
    let lease = Duration::from_secs(60);
    let claim = RunClaim::new(Kind::Process, "dead", 9, lease);
    assert_eq!(house.store.data().claim_runs(claim).await.unwrap().len(), 3);
    clock.advance(lease);
    let with = |name, seconds| Section { policy: base(seconds), ..section(name, Told::to(|_| Act::Pass)) };
    // Nobody here handles the jobs of `b`.
    let elsewhere = Section { handler: None, ..with("b", 22) };
    let counts = house.drain_jobs(vec![with("a", 11), elsewhere]).await;
    assert_eq!((counts.abandoned, counts.claimed), (3, 0));
    for (id, delay) in ids.into_iter().zip([11, 22, 60]) {
        let run = house.run(id).await;
        assert_eq!((run.state, run.retry_count), (State::Waiting, 1));
        assert_eq!(run.next_retry_at.unwrap().since(house.store.now()), Duration::from_secs(delay));
    }
}

redrive_fixture::on_both_databases!(
    a_final_error_is_not_tried_again,
    a_retryable_error_backs_off_until_its_attempts_are_exhausted,
    a_rate_limit_with_a_hint_waits_exactly_that_and_does_not_count,
    a_silent_workers_jobs_are_ended_by_the_policy_of_their_section,
);
