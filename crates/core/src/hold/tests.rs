use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000);

fn hold(scope: HoldScope, cause: Cause, until: Option<i64>) -> Hold {
    let until = until.map(Timestamp::from_micros);
    let id = HoldId::from_uuid(Uuid::nil());
    Hold { id, scope, cause, since: NOW, until, by: "ada".to_owned(), why: None }
}

fn scope() -> impl Strategy<Value = HoldScope> {
    let name = || prop::sample::select(vec!["a", "b"]);
    (name(), prop::option::of((name(), prop::option::of(name())))).prop_map(|(source, rest)| {
        let source = source.parse().unwrap();
        match rest {
            None => HoldScope::Source(source),
            Some((customer, None)) => HoldScope::Customer(source, customer.parse().unwrap()),
            Some((customer, Some(query))) => {
                HoldScope::Query(source, customer.parse().unwrap(), query.parse().unwrap())
            }
        }
    })
}

fn key() -> impl Strategy<Value = PartitionKey> {
    let name = || prop::sample::select(vec!["a", "b"]);
    (name(), name(), name())
        .prop_map(|(source, customer, query)| PartitionKey::new(source, customer, query, "2026-01-01").unwrap())
}

fn probing(at: i64, canary: Option<RunId>) -> Cause {
    let every = Duration::from_secs(300);
    Cause::Breaker(Probing { trip: Trip::Finals, at: Timestamp::from_micros(at), every, canary })
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![Just(Cause::Cooldown), Just(Cause::Operator), Just(probing(0, None)), Just(probing(5_000, None))]
}

#[test]
fn a_breaker_lets_one_canary_through_and_no_other_hold_any() {
    let source = || HoldScope::Source("a".parse().unwrap());
    let run = RunId::from_uuid(Uuid::nil());
    let lets = |cause, running: bool| hold(source(), cause, None).lets_through(NOW, |_| running);
    assert_eq!(lets(Cause::Operator, false), 0);
    assert_eq!(lets(Cause::Cooldown, false), 0);
    assert_eq!(lets(probing(1_001, None), false), 0, "it is not time yet");
    assert_eq!(lets(probing(1_000, None), false), 1);
    assert_eq!(lets(probing(1_000, Some(run)), true), 0, "one is on its way");
    assert_eq!(lets(probing(1_000, Some(run)), false), 1, "the last one came back without a verdict");
    assert_eq!(hold(source(), Cause::Operator, Some(1_000)).lets_through(NOW, |_| false), u32::MAX, "it has ended");
}

proptest! {
    #[test]
    fn a_scope_contains_another_exactly_if_it_covers_all_that_the_other_covers(a in scope(), b in scope(), key in key()) {
        if a.contains(&b) && b.covers(&key) {
            prop_assert!(a.covers(&key));
        }
        prop_assert!(a.contains(&a));
        if a.contains(&b) && b.contains(&a) {
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn wider_questions_have_narrower_answers(a in scope(), key in key()) {
        if a.covers_source(&key.source) {
            prop_assert!(a.covers_customer(&key.source, &key.customer_id));
        }
        if a.covers_customer(&key.source, &key.customer_id) {
            prop_assert!(a.covers(&key));
        }
    }

    #[test]
    fn the_reason_shown_covers_the_partition_and_none_that_does_ends_later(
        holds in prop::collection::vec((scope(), cause(), prop::option::of(900i64..1_100)), 0..6), key in key(),
    ) {
        let holds: Vec<Hold> = holds.into_iter().map(|(scope, cause, until)| hold(scope, cause, until)).collect();
        let mut covering = holds.iter().filter(|hold| hold.is_in_force(NOW) && hold.scope.covers(&key));
        match reason(&holds, &key, NOW) {
            None => prop_assert_eq!(covering.next(), None),
            Some(shown) => {
                prop_assert!(shown.is_in_force(NOW) && shown.scope.covers(&key));
                let end = |hold: &Hold| hold.until.unwrap_or(Timestamp::MAX);
                for other in covering {
                    prop_assert!(end(other) <= end(shown));
                    prop_assert!(end(other) < end(shown) || other.kind() <= shown.kind());
                }
            }
        }
    }
}
