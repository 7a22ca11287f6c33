//! What is not a partition's fault, or would be every partition's: nothing is burnt, and the others wait.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::failure::ErrorClass;
use redrive_core::hold::{HoldKind, HoldScope, SOURCE_UNUSABLE};
use redrive_core::partition::Status;
use redrive_core::run::EndedBy;
use redrive_data::extract::Failure;

use crate::house::{TestDataPlane, Work, key, keys};
use crate::source::{Act, Source};

/// How many of a customer's days failed, and how many were never tried.
async fn failed_and_untried(house: &TestDataPlane, customer: &str, days: u32) -> (usize, usize) {
    let (mut failed, mut untried) = (0, 0);
    for key in keys(customer, days) {
        let partition = house.partition(&key).await;
        match (partition.state.status, partition.state.attempt_count) {
            (Status::Failed, _) => failed += 1,
            (Status::Pending, 0) => untried += 1,
            other => panic!("{key}: {other:?}"),
        }
    }
    (failed, untried)
}

/// OP-4
async fn failures_alike_cost_no_more_than_the_breaker_allows(house: TestDataPlane) {
    for customer in ["a", "b", "c"] {
        house.want(&keys(customer, 40)).await;
    }
    let source = Source::new(|_| Act::Fail(Failure::fatal("401: the token has expired")));
    let work = || Work {
        breaker: BreakerPolicy { after: 20, probe: Duration::from_secs(3600) },
        concurrency: 16,
        ..Work::with(Arc::clone(&source) as _)
    };
    let counts = house.worker(work()).await.0.run().await.unwrap();
    assert!((20..=25).contains(&counts.rejected), "{counts:?}");
    assert_eq!(u64::from(source.asked()), counts.rejected);
    let holds = house.store.view().holds().await.unwrap();
    let [hold] = &holds[..] else { panic!("{holds:?}") };
    assert_eq!((hold.kind(), hold.scope.to_string().as_str(), hold.by.as_str()), (HoldKind::Breaker, "src", "tester"));
    assert!(hold.why.as_deref().unwrap().contains("the token has expired"), "{hold:?}");
    let mut failed = 0;
    for customer in ["a", "b", "c"] {
        failed += failed_and_untried(&house, customer, 40).await.0;
    }
    assert_eq!(u64::try_from(failed).unwrap(), counts.rejected, "the others were not touched");
    assert_eq!(house.worker(work()).await.0.run().await.unwrap().claimed, 0, "another worker asks nothing");
}

/// OP-5
async fn a_source_that_cannot_be_used_burns_no_attempt(house: TestDataPlane) {
    house.want(&keys("a", 40)).await;
    let source = Source::new(|_| Act::Fail(Failure::fatal("cannot start extract.py: it is not there").of_setup()));
    let counts = house.drain(Arc::clone(&source) as _).await;
    assert_eq!((counts.rejected, counts.accepted), (0, 0));
    assert!(source.asked() <= 8, "{} calls", source.asked());
    assert_eq!(failed_and_untried(&house, "a", 40).await, (0, 40));
    let holds = house.store.view().holds().await.unwrap();
    let [hold] = &holds[..] else { panic!("{holds:?}") };
    assert_eq!((hold.kind(), hold.scope.to_string().as_str()), (HoldKind::Breaker, "src"));
    let why = hold.why.as_deref().unwrap();
    assert!(why.starts_with(SOURCE_UNUSABLE) && why.contains("extract.py"), "{why}");
    let well = Source::new(|_| Act::Bring(1));
    assert_eq!(house.drain(Arc::clone(&well) as _).await.claimed, 0, "it is not a minute yet");
    house.store.data().look_again(&["src".parse().unwrap()]).await.unwrap();
    // The first goes ahead alone, and its success lets the others go.
    assert_eq!(house.drain(well as _).await.accepted, 40);
    assert!(house.store.view().holds().await.unwrap().is_empty());
}

/// OP-6
async fn a_rate_limit_with_a_hint_is_no_verdict(house: TestDataPlane) {
    let here = key("a", 0);
    house.want(std::slice::from_ref(&here)).await;
    let hour = Some(Duration::from_secs(3600));
    let source = Source::new(move |_| Act::Fail(Failure::rate_limited("429", hour)));
    let counts = house.drain(Arc::clone(&source) as _).await;
    assert_eq!((counts.rejected, counts.released), (0, 1));
    let partition = house.partition(&here).await;
    assert_eq!((partition.state.status, partition.state.attempt_count), (Status::Pending, 0));
    assert!((3_500..=3_600).contains(&partition.control.rate_limit_waited.as_secs()), "{partition:?}");
    assert!(
        partition.control.not_before.is_some_and(|until| until > house.now()) && partition.control.wanted.is_some()
    );
    let runs = house.attempts(&here).await;
    assert_eq!((runs.len(), runs[0].ended_by, runs[0].verdict), (1, Some(EndedBy::RateLimited), None));
    // A person lifts the cooldown, and the source still says when to come.
    let (operation, scope) = (house.operation("lift"), HoldScope::Source("src".parse().unwrap()));
    assert_eq!(house.store.control().lift_holds(&operation, &[scope.clone()].into(), None).await.unwrap().len(), 1);
    assert_eq!(house.drain(source as _).await.claimed, 0);
}

/// OP-6
async fn past_its_budget_a_rate_limit_counts(house: TestDataPlane) {
    let here = key("a", 0);
    house.want(std::slice::from_ref(&here)).await;
    let source = Source::new(|_| Act::Fail(Failure::rate_limited("429", Some(Duration::from_secs(60)))));
    let work = Work { rate_limit_budget: Duration::from_secs(59), ..Work::with(source) };
    assert_eq!(house.worker(work).await.0.run().await.unwrap().rejected, 1);
    let state = house.partition(&here).await.state;
    assert_eq!(
        (state.status, state.attempt_count, state.error_class),
        (Status::Failed, 1, Some(ErrorClass::RateLimited))
    );
}

/// A source that says "come at once", or names a time that has passed, is asked once a second at the most, and uses the budget up.
async fn a_rate_limit_that_ends_at_once_counts_as_a_wait(house: TestDataPlane) {
    let here = key("a", 0);
    house.want(std::slice::from_ref(&here)).await;
    let source = Source::new(|_| Act::Fail(Failure::rate_limited("429", Some(Duration::ZERO))));
    house.drain(Arc::clone(&source) as _).await;
    let partition = house.partition(&here).await;
    assert_eq!((partition.state.status, partition.state.attempt_count), (Status::Pending, 0));
    let waited = partition.control.rate_limit_waited;
    assert!(waited >= Duration::from_millis(500) * source.asked(), "{waited:?} for {} answers", source.asked());
}

redrive_fixture::on_both_databases!(
    a_rate_limit_that_ends_at_once_counts_as_a_wait,
    failures_alike_cost_no_more_than_the_breaker_allows,
    a_source_that_cannot_be_used_burns_no_attempt,
    a_rate_limit_with_a_hint_is_no_verdict,
    past_its_budget_a_rate_limit_counts,
);
