//! Asking for a success again: it stays whole until a new run is accepted.

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::{Control, ControlEvent, Partition, Reprocess, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_store::Outcome;

use crate::steps::{accepted, changed, recorded, rejected};
use crate::support::{TestStore, key};

fn outcome_of(partition: &Partition) -> (Status, Option<redrive_core::id::RunId>, Option<u64>) {
    (partition.state.status, partition.state.current_run_id, partition.state.record_count)
}

/// RP-2.6, CP-7.1, CP-7.3, RP-9.2
async fn a_success_stays_until_a_new_run_is_accepted(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    let first = subject.judged(vec![key.clone()], accepted(10)).await.remove(0);
    assert!(subject.claim(9).await.is_empty(), "nobody asked for it again");

    for attempt in 2..=3 {
        // The second time round, a rejected one is asked for anew.
        assert!(changed(&subject.ask(&key, ControlEvent::Reprocess).await));
        let twice = subject.ask(&key, ControlEvent::Reprocess).await;
        assert_eq!(twice, Outcome::Refused(Refused::NoOp(Reason::AlreadyPending)));
        assert_eq!(outcome_of(&subject.read(&key).await), outcome_of(&first));
        let claimed = subject.claim(9).await.remove(0);
        assert_eq!(claimed.partition.control.wanted.unwrap().lane, Lane::Retry);
        assert_eq!(outcome_of(&subject.read(&key).await), outcome_of(&first));
        recorded(subject.judge(&claimed.run, rejected(ErrorClass::Retryable, "boom")).await);
        let still = subject.read(&key).await;
        assert_eq!(outcome_of(&still), outcome_of(&first));
        assert_eq!((still.state.attempt_count, still.state.error_message.clone()), (attempt, None));
        let waiting = Control { reprocess: Some(Reprocess { rejected: 1 }), ..Control::default() };
        assert_eq!(still.control, waiting, "the request stands");
        assert!(subject.claim(9).await.is_empty(), "and waits for its time");
        assert_eq!(subject.store.view().run_failures(claimed.run.run_id).await.unwrap().len(), 1);
    }
    assert!(changed(&subject.ask(&key, ControlEvent::Reprocess).await));
    let claimed = subject.claim(9).await.remove(0);
    recorded(subject.judge(&claimed.run, accepted(11)).await);
    let second = subject.read(&key).await;
    assert_eq!(outcome_of(&second), (Status::Success, Some(claimed.run.run_id), Some(11)));
    assert_eq!(subject.store.view().attempts(&key).await.unwrap().len(), 4);
}

crate::on_both_databases!(a_success_stays_until_a_new_run_is_accepted);
