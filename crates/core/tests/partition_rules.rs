//! The obligations on partitions, one by one. The tests' names stand in the traceability table.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;

use std::num::NonZeroU32;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::{
    Control, ControlEvent, DataEvent, Judgement, Partition, PartitionState, Reprocess, Status, Terminal, Wanted,
    terminal,
};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{Grant, RetryPolicy, StopReason};
use specimen::{
    HOUR, ask, at, attempt, backfill, exhausted, failed, force_pending, in_flight, key, mark, marked, paused, pending,
    policy, rejection, report, reprocess_rejected, reprocess_requested, reprocessing, retry, retry_clearing,
    retry_stale, run_id, success, task_id,
};

fn mark_terminal(threshold: u32) -> ControlEvent<'static> {
    ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold }
}

fn no_op(reason: Reason) -> Result<Partition, Refused> {
    Err(Refused::NoOp(reason))
}

fn forbidden(reason: Reason) -> Result<Partition, Refused> {
    Err(Refused::Rule(reason))
}

#[test]
fn an_accepted_run_makes_a_pending_partition_a_success_of_that_run() {
    let mut before = in_flight();
    before.state.error_class = Some(ErrorClass::Retryable);
    before.state.error_message = Some("of the time before".to_owned());
    let after = report(&before, DataEvent::Judged(attempt(1), Judgement::Accepted { records: 42 }), at(100)).unwrap();
    assert_eq!(after.state.status, Status::Success);
    assert_eq!(after.state.current_run_id, Some(run_id(1)));
    assert_eq!(after.state.record_count, Some(42));
    assert_eq!((after.state.error_class, after.state.error_message), (None, None));
    assert_eq!((after.state.created_at, after.state.updated_at), (at(0), at(100)));
    assert!(after.control.is_empty(), "a success that nobody wants needs no control row");
}

#[test]
fn a_rejected_run_fails_a_pending_partition_and_leaves_its_current_run() {
    for current in [None, Some(run_id(90))] {
        let mut before = in_flight();
        before.state.current_run_id = current;
        let after = report(&before, DataEvent::Judged(attempt(1), rejection("boom")), at(100)).unwrap();
        assert_eq!(after.state.status, Status::Failed);
        assert_eq!(after.state.current_run_id, current);
        assert_eq!(after.state.error_class, Some(ErrorClass::Retryable));
        assert_eq!(after.state.error_message.as_deref(), Some("boom"));
        assert_eq!(after.state.updated_at, at(100), "backoff counts from the verdict");
        assert!(after.control.is_empty());
    }
}

#[test]
fn no_report_of_the_data_plane_moves_a_failed_partition() {
    for before in [failed(), marked(), exhausted(), paused(failed())] {
        for event in [
            DataEvent::Claimed(attempt(2)),
            DataEvent::Released(attempt(2)),
            DataEvent::Judged(attempt(2), Judgement::Accepted { records: 1 }),
            DataEvent::Judged(attempt(2), rejection("boom")),
        ] {
            assert!(report(&before, event.clone(), at(100)).is_err(), "{event:?} on {before:?}");
        }
    }
}

#[test]
fn another_failed_attempt_raises_attempt_count_and_the_partition_is_failed_again() {
    let queued = ask(&failed(), retry(&policy()), at(400)).unwrap();
    let claimed = report(&queued, DataEvent::Claimed(attempt(2)), at(410)).unwrap();
    let again = report(&claimed, DataEvent::Judged(attempt(2), rejection("boom again")), at(420)).unwrap();
    assert_eq!(again.state.status, Status::Failed);
    assert_eq!(again.state.attempt_count, 2);
    assert_eq!(again.state.error_message.as_deref(), Some("boom again"));
}

#[test]
fn terminal_comes_from_a_mark_or_attempts_or_age_and_only_over_failed() {
    let (policy, young, old) = (policy(), at(100), at(48 * 3600));
    assert_eq!(terminal(&failed(), &policy, young), None);
    assert_eq!(terminal(&marked(), &policy, young), Some(Terminal::Marked(&mark("hopeless"))));
    assert_eq!(terminal(&exhausted(), &policy, young), Some(Terminal::ByPolicy(StopReason::AttemptsExhausted)));
    assert_eq!(terminal(&failed(), &policy, old), Some(Terminal::ByPolicy(StopReason::TooOld)));
    assert_eq!(terminal(&failed(), &policy, at(48 * 3600 - 1)), None);
    for mut other in [pending(), in_flight(), success(), reprocess_requested()] {
        other.state.attempt_count = 99;
        assert_eq!(terminal(&other, &policy, old), None, "{:?}", other.state.status);
    }
    let boundless = RetryPolicy { max_attempts: None, max_age: None, ..policy };
    let mut tried_often = failed();
    tried_often.state.attempt_count = u32::MAX;
    assert_eq!(terminal(&tried_often, &boundless, at(i64::from(u32::MAX))), None);
}

#[test]
fn the_validator_ignores_the_policy() {
    let granted = ask(&exhausted(), retry_clearing(&policy()), at(48 * 3600)).unwrap();
    let claimed = report(&granted, DataEvent::Claimed(attempt(2)), at(49 * 3600)).unwrap();
    let accepted = DataEvent::Judged(attempt(2), Judgement::Accepted { records: 7 });
    assert_eq!(report(&claimed, accepted, at(50 * 3600)).unwrap().state.status, Status::Success);
    let rejected = report(&claimed, DataEvent::Judged(attempt(2), rejection("boom")), at(50 * 3600)).unwrap();
    assert_eq!((rejected.state.status, rejected.state.attempt_count), (Status::Failed, 4));
    assert_eq!(rejected.control.terminal, None, "what the policy decides is never written");
}

#[test]
fn an_accepted_reprocess_replaces_the_current_run() {
    let accepted = DataEvent::Judged(attempt(1), Judgement::Accepted { records: 7 });
    let after = report(&reprocessing(), accepted, at(100)).unwrap();
    assert_eq!(after.state.status, Status::Success);
    assert_eq!((after.state.current_run_id, after.state.record_count), (Some(run_id(1)), Some(7)));
    assert!(after.control.is_empty());
}

#[test]
fn a_rejected_reprocess_leaves_the_success_whole() {
    let before = reprocessing();
    let hinted = Judgement::Rejected {
        class: ErrorClass::RateLimited,
        message: "slow down".to_owned(),
        not_before: Some(at(9_000)),
    };
    let after = report(&before, DataEvent::Judged(attempt(1), hinted), at(100)).unwrap();
    assert_eq!(after.state.status, Status::Success);
    assert_eq!(after.state.current_run_id, Some(run_id(90)));
    assert_eq!(after.state.record_count, Some(1000));
    assert_eq!((after.state.error_class, after.state.error_message.as_deref()), (None, None));
    assert_eq!(after.state.attempt_count, before.state.attempt_count + 1, "a verdict counts, whatever it was");
    let again =
        Control { reprocess: Some(Reprocess { rejected: 1 }), not_before: Some(at(9_000)), ..Control::default() };
    assert_eq!(after.control, again, "the request stands, and the source's hint with it");
}

#[test]
fn a_rejected_reprocess_is_retried_as_a_success() {
    let before = reprocess_rejected();
    let after = ask(&before, retry(&policy()), at(100)).unwrap();
    assert_eq!(after.state, PartitionState { version: before.state.version + 1, ..before.state.clone() });
    assert_eq!(after.control.wanted, Some(Wanted { lane: Lane::Retry, queued_at: at(100) }));
    assert_eq!(after.control.reprocess, Some(Reprocess { rejected: 1 }), "automation keeps count");
    assert_eq!(ask(&after, retry(&policy()), at(101)), no_op(Reason::NotFailed));

    let anew = ask(&before, ControlEvent::Reprocess, at(100)).unwrap();
    assert_eq!(anew.control.reprocess, Some(Reprocess { rejected: 0 }), "a person who asks anew starts the count anew");
    assert_eq!(ask(&paused(before.clone()), retry(&policy()), at(100)), no_op(Reason::Paused));
    assert_eq!(ask(&paused(before), ControlEvent::Reprocess, at(100)), no_op(Reason::Paused));
}

#[test]
fn a_final_error_ends_a_reprocess() {
    let gone =
        Judgement::Rejected { class: ErrorClass::Final, message: "gone".to_owned(), not_before: Some(at(9_000)) };
    let after = report(&reprocessing(), DataEvent::Judged(attempt(1), gone), at(100)).unwrap();
    assert_eq!((after.state.status, after.state.current_run_id), (Status::Success, Some(run_id(90))));
    assert!(after.control.is_empty(), "trying again would give the same answer");
}

#[test]
fn asking_for_a_reprocess_leaves_the_success_readable() {
    let after = ask(&success(), ControlEvent::Reprocess, at(100)).unwrap();
    assert_eq!((after.state.status, after.state.current_run_id), (Status::Success, Some(run_id(90))));
    assert_eq!(after.state.updated_at, success().state.updated_at);
    assert_eq!(after.control.wanted, Some(Wanted { lane: Lane::Retry, queued_at: at(100) }));
    assert_eq!(after.control.reprocess, Some(Reprocess { rejected: 0 }));
    assert_eq!(ask(&after, ControlEvent::Reprocess, at(101)), no_op(Reason::AlreadyPending));
    assert_eq!(ask(&pending(), ControlEvent::Reprocess, at(100)), no_op(Reason::AlreadyPending));
    assert_eq!(ask(&failed(), ControlEvent::Reprocess, at(100)), no_op(Reason::NotSuccess));
    assert_eq!(ask(&reprocessing(), ControlEvent::Reprocess, at(100)), no_op(Reason::AlreadyPending));
}

#[test]
fn a_retry_of_a_failed_partition_only_sets_it_pending() {
    let mut before = failed();
    before.state.current_run_id = Some(run_id(90));
    before.state.record_count = Some(1000);
    before.control.not_before = Some(at(9_000));
    let after = ask(&before, retry(&policy()), at(100)).unwrap();
    let mut expected = before;
    expected.state.status = Status::Pending;
    expected.state.updated_at = at(100);
    expected.state.version += 1;
    expected.control.wanted = Some(Wanted { lane: Lane::Retry, queued_at: at(100) });
    expected.control.not_before = None;
    assert_eq!(after, expected);
}

#[test]
fn a_retry_of_a_pending_partition_is_a_no_op() {
    for before in [pending(), in_flight(), paused(pending())] {
        for event in [retry(&policy()), retry_clearing(&policy())] {
            assert_eq!(ask(&before, event, at(100)), no_op(Reason::AlreadyPending));
        }
    }
}

#[test]
fn a_stale_pending_partition_can_be_requeued_unless_it_is_in_flight() {
    let after = ask(&pending(), retry_stale(&policy()), at(9_000)).unwrap();
    assert_eq!(after.state.status, Status::Pending);
    assert_eq!(after.control.wanted, Some(Wanted { lane: Lane::Retry, queued_at: at(9_000) }));
    assert_eq!(ask(&in_flight(), retry_stale(&policy()), at(9_000)), forbidden(Reason::InFlight));
    assert_eq!(ask(&paused(pending()), retry_stale(&policy()), at(9_000)), no_op(Reason::Paused));
}

#[test]
fn a_success_is_never_retried() {
    for before in [success(), reprocess_requested(), reprocessing(), paused(success())] {
        for event in [retry(&policy()), retry_clearing(&policy()), retry_stale(&policy())] {
            assert_eq!(ask(&before, event, at(100)), no_op(Reason::NotFailed));
        }
    }
}

#[test]
fn a_retry_past_max_attempts_or_max_age_needs_clear_terminal() {
    for (before, now) in [(exhausted(), at(100)), (failed(), at(48 * 3600))] {
        assert_eq!(ask(&before, retry(&policy()), now), forbidden(Reason::Terminal));
        assert_eq!(ask(&before, retry_stale(&policy()), now), forbidden(Reason::Terminal));
        let granted = ask(&before, retry_clearing(&policy()), now).unwrap();
        assert_eq!(granted.state.status, Status::Pending);
        assert_eq!(granted.state.attempt_count, before.state.attempt_count);
    }
}

#[test]
fn a_retry_of_a_marked_partition_needs_clear_terminal_which_takes_the_mark_off() {
    assert_eq!(ask(&marked(), retry(&policy()), at(100)), forbidden(Reason::Terminal));
    let after = ask(&marked(), retry_clearing(&policy()), at(100)).unwrap();
    assert_eq!(after.state.status, Status::Pending);
    assert_eq!(after.control.terminal, None);
    assert_eq!(after.state.error_message.as_deref(), Some("boom"));
}

/// Fails the attempt that a retry has queued, and gives what is left of the partition.
fn tried_in_vain(queued: &Partition, nth: u64) -> Partition {
    let now = at(100 + i64::try_from(nth).unwrap());
    let claimed = report(queued, DataEvent::Claimed(attempt(nth)), now).unwrap();
    report(&claimed, DataEvent::Judged(attempt(nth), rejection("boom")), now).unwrap()
}

/// OP-9
#[test]
fn a_grant_gives_further_attempts_past_the_policy_and_the_count_goes_on() {
    let two = Some(Grant::Attempts(NonZeroU32::new(2).unwrap()));
    for (grant, further) in [(two, 2), (Some(Grant::Full), 3)] {
        let event = ControlEvent::Retry { grant, policy: &policy(), clear_terminal: false, stale: false };
        let mut partition = ask(&exhausted(), event, at(100)).unwrap();
        assert_eq!(partition.state.attempt_count, 3, "what was tried was tried");
        for nth in 1..=further {
            partition = tried_in_vain(&partition, nth);
            let again = ask(&partition, retry(&policy()), at(200));
            match nth < further {
                true => partition = again.unwrap(),
                false => assert_eq!(again, forbidden(Reason::Terminal)),
            }
        }
        assert_eq!(u64::from(partition.state.attempt_count), 3 + further);
    }
}

#[test]
fn a_grant_passes_neither_a_mark_nor_the_age_limit() {
    let policy = policy();
    let grant =
        || ControlEvent::Retry { grant: Some(Grant::Full), policy: &policy, clear_terminal: false, stale: false };
    assert_eq!(ask(&marked(), grant(), at(100)), forbidden(Reason::Terminal));
    assert_eq!(ask(&exhausted(), grant(), at(48 * 3600)), forbidden(Reason::Terminal));
}

#[test]
fn a_grant_ends_with_the_success_it_led_to() {
    let event =
        ControlEvent::Retry { grant: Some(Grant::Full), policy: &policy(), clear_terminal: false, stale: false };
    let queued = ask(&exhausted(), event, at(100)).unwrap();
    let claimed = report(&queued, DataEvent::Claimed(attempt(2)), at(110)).unwrap();
    let accepted = DataEvent::Judged(attempt(2), Judgement::Accepted { records: 7 });
    let after = report(&claimed, accepted, at(120)).unwrap();
    assert!(after.control.is_empty(), "there is nothing to remember beside a success");
}

#[test]
fn a_granted_attempt_that_fails_is_terminal_by_policy_again() {
    let granted = ask(&exhausted(), retry_clearing(&policy()), at(100)).unwrap();
    let claimed = report(&granted, DataEvent::Claimed(attempt(2)), at(110)).unwrap();
    let again = report(&claimed, DataEvent::Judged(attempt(2), rejection("boom")), at(120)).unwrap();
    assert_eq!(ask(&again, retry(&policy()), at(130)), forbidden(Reason::Terminal));
}

#[test]
fn a_backfill_leaves_what_is_there_unless_it_forces_pending() {
    let every = [pending(), in_flight(), failed(), marked(), success(), reprocessing(), paused(failed())];
    for before in every {
        assert_eq!(ask(&before, backfill(&policy()), at(100)), no_op(Reason::Exists));
    }
    for before in [failed(), success(), reprocess_requested()] {
        let after = ask(&before, force_pending(&policy()), at(100)).unwrap();
        assert_eq!(after.state.status, Status::Pending);
        assert_eq!(after.control.wanted, Some(Wanted { lane: Lane::Backfill, queued_at: at(100) }));
        assert_eq!(after.control.reprocess, None);
        assert_eq!(after.state.current_run_id, before.state.current_run_id);
        assert_eq!(after.state.record_count, before.state.record_count);
        assert_eq!(after.state.attempt_count, before.state.attempt_count);
    }
    assert_eq!(ask(&pending(), force_pending(&policy()), at(100)), no_op(Reason::AlreadyPending));
    assert_eq!(ask(&reprocessing(), force_pending(&policy()), at(100)), forbidden(Reason::InFlight));
    assert_eq!(ask(&marked(), force_pending(&policy()), at(100)), forbidden(Reason::Terminal));
    assert_eq!(ask(&exhausted(), force_pending(&policy()), at(100)), forbidden(Reason::Terminal));
}

#[test]
fn a_backfilled_partition_is_like_any_other_but_for_its_lane() {
    let (fresh, history) = (Partition::new(key(), Lane::Fresh, at(0)), Partition::new(key(), Lane::Backfill, at(0)));
    assert_eq!(fresh.state, history.state);
    let without_lane = |partition: &Partition| Control { wanted: None, ..partition.control.clone() };
    assert_eq!(without_lane(&fresh), without_lane(&history));
}

#[test]
fn mark_terminal_wants_a_failed_partition_at_its_threshold() {
    for before in [pending(), in_flight(), success(), reprocess_requested(), reprocessing()] {
        assert_eq!(ask(&before, mark_terminal(0), at(100)), no_op(Reason::NotFailed));
    }
    assert_eq!(ask(&failed(), mark_terminal(2), at(100)), forbidden(Reason::BelowThreshold));
    assert_eq!(ask(&marked(), mark_terminal(1), at(100)), no_op(Reason::Terminal));
    for threshold in [0, 1] {
        assert!(ask(&failed(), mark_terminal(threshold), at(100)).is_ok());
    }
}

#[test]
fn marking_and_clearing_terminal_touch_nothing_but_the_mark_and_its_prefix() {
    for message in [Some("boom"), Some(" boom "), None] {
        let mut before = failed();
        before.state.error_message = message.map(str::to_owned);
        let terminal = ask(&before, mark_terminal(1), at(100)).unwrap();
        let mut expected = before.clone();
        expected.state.version += 1;
        expected.state.error_message =
            Some(message.map_or("[terminal]".to_owned(), |message| format!("[terminal] {message}")));
        let by_ada =
            redrive_core::partition::Mark { by: "ada".to_owned(), at: at(100), why: Some("hopeless".to_owned()) };
        expected.control.terminal = Some(by_ada);
        assert_eq!(terminal, expected);
        let mut cleared = ask(&terminal, ControlEvent::ClearTerminal, at(200)).unwrap();
        cleared.state.version = before.state.version;
        assert_eq!(cleared, before);
    }
}

#[test]
fn only_a_mark_can_be_cleared() {
    for before in [failed(), pending(), success(), exhausted()] {
        assert_eq!(ask(&before, ControlEvent::ClearTerminal, at(100)), no_op(Reason::NotTerminal));
    }
}

#[test]
fn a_paused_partition_is_neither_claimed_nor_requeued() {
    let claim = || DataEvent::Claimed(attempt(2));
    assert_eq!(report(&paused(pending()), claim(), at(100)), no_op(Reason::Paused));
    assert_eq!(report(&paused(reprocess_requested()), claim(), at(100)), no_op(Reason::Paused));
    assert_eq!(ask(&paused(failed()), retry(&policy()), at(100)), no_op(Reason::Paused));
    assert_eq!(ask(&paused(marked()), retry_clearing(&policy()), at(100)), no_op(Reason::Paused));
    assert_eq!(ask(&paused(success()), ControlEvent::Reprocess, at(100)), no_op(Reason::Paused));
    assert_eq!(ask(&paused(success()), force_pending(&policy()), at(100)), no_op(Reason::Paused));
    assert!(paused(failed()).control.is_held() && marked().control.is_held() && !failed().control.is_held());
}

#[test]
fn an_attempt_that_is_under_way_may_finish_although_its_partition_was_paused() {
    let accepted = DataEvent::Judged(attempt(1), Judgement::Accepted { records: 7 });
    let after = report(&paused(in_flight()), accepted, at(100)).unwrap();
    assert_eq!(after.state.status, Status::Success);
    assert_eq!(after.control.paused, Some(mark("looking into it")));
}

#[test]
fn pausing_twice_and_resuming_twice_are_no_ops() {
    let pause = || ControlEvent::Pause { by: "ada", why: None };
    for before in [pending(), in_flight(), failed(), marked(), success()] {
        let held = ask(&before, pause(), at(100)).unwrap();
        assert_eq!(ask(&held, pause(), at(101)), no_op(Reason::Paused));
        let mut resumed = ask(&held, ControlEvent::Resume, at(102)).unwrap();
        assert_eq!(ask(&resumed, ControlEvent::Resume, at(103)), no_op(Reason::NotPaused));
        resumed.state.version = before.state.version;
        assert_eq!(resumed, before);
    }
}

#[test]
fn only_pending_partitions_and_requested_reprocesses_are_claimed() {
    for before in [pending(), reprocess_requested()] {
        let after = report(&before, DataEvent::Claimed(attempt(2)), at(100)).unwrap();
        let mut expected = before;
        expected.control.active = Some(attempt(2));
        expected.state.version += 1;
        assert_eq!(after, expected, "a claim says nothing but whose attempt it is");
    }
    for before in [failed(), marked(), success()] {
        assert_eq!(report(&before, DataEvent::Claimed(attempt(2)), at(100)), no_op(Reason::NotQueued));
    }
}

#[test]
fn a_place_in_the_queue_is_not_enough_to_be_claimed() {
    let wanted = |mut partition: Partition| {
        partition.control.wanted = Some(Wanted { lane: Lane::Retry, queued_at: at(20) });
        partition
    };
    let unwanted = Partition { control: Control::default(), ..pending() };
    for unsound in [wanted(failed()), wanted(marked()), wanted(success()), unwanted] {
        assert_eq!(report(&unsound, DataEvent::Claimed(attempt(2)), at(100)), no_op(Reason::NotQueued));
    }
}

#[test]
fn a_partition_in_flight_is_not_claimed_again() {
    for before in [in_flight(), reprocessing()] {
        for again in [attempt(1), attempt(2)] {
            assert_eq!(report(&before, DataEvent::Claimed(again), at(100)), forbidden(Reason::InFlight));
        }
    }
}

#[test]
fn a_released_attempt_burns_nothing_and_keeps_its_place_in_the_queue() {
    for (before, queued) in [(in_flight(), pending()), (reprocessing(), reprocess_requested())] {
        let mut after = report(&before, DataEvent::Released(attempt(1)), at(100)).unwrap();
        after.state.version = queued.state.version;
        assert_eq!(after, queued);
    }
}

#[test]
fn a_stale_worker_changes_nothing() {
    let other_task = redrive_core::partition::InFlight { run_id: run_id(1), task_id: task_id(2) };
    let other_run = redrive_core::partition::InFlight { run_id: run_id(2), task_id: task_id(1) };
    let on_time = [(in_flight(), attempt(2)), (in_flight(), other_task), (in_flight(), other_run)];
    let too_late = [pending(), failed(), success(), reprocess_requested()].map(|before| (before, attempt(1)));
    for (before, stale) in on_time.into_iter().chain(too_late) {
        for event in [
            DataEvent::Released(stale),
            DataEvent::Judged(stale, Judgement::Accepted { records: 1 }),
            DataEvent::Judged(stale, rejection("boom")),
        ] {
            assert_eq!(report(&before, event, at(100)), forbidden(Reason::StaleFence));
        }
    }
}

#[test]
fn a_second_verdict_for_one_attempt_is_refused() {
    let accepted = || DataEvent::Judged(attempt(1), Judgement::Accepted { records: 7 });
    let after = report(&in_flight(), accepted(), at(100)).unwrap();
    assert_eq!(report(&after, accepted(), at(101)), forbidden(Reason::StaleFence));
}

#[test]
fn a_source_cannot_mark_its_own_partition_terminal() {
    let message = "[terminal] quota [terminal]\0";
    let after = report(&in_flight(), DataEvent::Judged(attempt(1), rejection(message)), at(100)).unwrap();
    assert_eq!(after.state.error_message.as_deref(), Some("(terminal) quota (terminal)"));
    assert_eq!(after.control.terminal, None);
    assert!(ask(&after, retry(&policy()), at(400)).is_ok());
}

#[test]
fn a_sources_hint_is_kept_beside_the_state_until_the_partition_is_wanted_again() {
    let hinted = Judgement::Rejected {
        class: ErrorClass::RateLimited,
        message: "slow down".to_owned(),
        not_before: Some(at(9_000)),
    };
    let after = report(&in_flight(), DataEvent::Judged(attempt(1), hinted), at(100)).unwrap();
    assert_eq!(after.control.not_before, Some(at(9_000)));
    assert_eq!(after.state.attempt_count, 1, "a rate limit is a verdict and counts");
    assert_eq!(ask(&after, retry(&policy()), at(9_000)).unwrap().control.not_before, None);
}

#[test]
fn undo_is_refused_once_anything_has_happened_since() {
    let before = marked();
    let queued = ask(&before, retry_clearing(&policy()), at(100)).unwrap();
    let version = queued.state.version;
    let standing = before.snapshot();
    let undo = || ControlEvent::Revert { to: &standing, from_version: version };

    let claimed = report(&queued, DataEvent::Claimed(attempt(2)), at(110)).unwrap();
    assert_eq!(ask(&claimed, undo(), at(111)), forbidden(Reason::InFlight));
    let released = report(&claimed, DataEvent::Released(attempt(2)), at(120)).unwrap();
    assert_eq!(ask(&released, undo(), at(121)), forbidden(Reason::ChangedSincePlan));

    let undone = ask(&queued, undo(), at(105)).unwrap();
    assert_eq!(undone.state.error_message.as_deref(), Some("[terminal] boom"));
    assert_eq!(undone.snapshot().terminal, before.control.terminal);
    assert_eq!(undone.state.updated_at, before.state.updated_at, "backoff goes on from where it was");
    assert_eq!(ask(&undone, undo(), at(106)), forbidden(Reason::ChangedSincePlan), "an undo is done once");
}

#[test]
fn the_clock_may_jump_without_ageing_a_partition_backwards() {
    let before_it_was_made = at(0).saturating_sub(1_000_000 * HOUR);
    assert_eq!(terminal(&failed(), &policy(), before_it_was_made), None);
    let after = ask(&failed(), retry(&policy()), before_it_was_made).unwrap();
    assert_eq!(after.state.status, Status::Pending);
}
