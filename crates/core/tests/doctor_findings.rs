//! Every invariant can be broken, and is then named: one hand-made damage for each kind, in an otherwise sound partition.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;

use std::collections::BTreeSet;

use redrive_core::failure::ErrorClass;
use redrive_core::invariants::{AttemptFacts, check};
use redrive_core::partition::{InFlight, Partition, Reprocess, Status, Wanted};
use redrive_core::run::{State, Verdict};
use specimen::{at, attempt, key, mark, pending, run_id, task_id};

fn ended(number: u32, state: State, verdict: Option<Verdict>) -> AttemptFacts {
    let n = u64::from(number);
    let failures = u64::from(verdict == Some(Verdict::Failed));
    let task_id = Some(task_id(n));
    AttemptFacts { run_id: run_id(n), task_id, number, state, verdict, lease_until: None, failures, manifest: None }
}

fn passed(number: u32) -> AttemptFacts {
    ended(number, State::Done, Some(Verdict::Passed))
}

fn failed(number: u32) -> AttemptFacts {
    ended(number, State::Dead, Some(Verdict::Failed))
}

fn running(number: u32) -> AttemptFacts {
    AttemptFacts { lease_until: Some(at(60)), ..ended(number, State::Running, None) }
}

/// A failure, and then an accepted run.
fn success() -> (Partition, Vec<AttemptFacts>) {
    let mut partition = pending();
    partition.control.wanted = None;
    partition.state.status = Status::Success;
    partition.state.attempt_count = 2;
    partition.state.current_run_id = Some(run_id(2));
    partition.state.record_count = Some(7);
    (partition, vec![failed(1), passed(2)])
}

fn failure() -> (Partition, Vec<AttemptFacts>) {
    let mut partition = pending();
    partition.control.wanted = None;
    partition.state.status = Status::Failed;
    partition.state.attempt_count = 1;
    partition.state.error_class = Some(ErrorClass::Retryable);
    partition.state.error_message = Some("boom".to_owned());
    (partition, vec![failed(1)])
}

/// The second attempt after a failure is under way.
fn under_way() -> (Partition, Vec<AttemptFacts>) {
    let (mut partition, mut attempts) = failure();
    partition.state.status = Status::Pending;
    partition.control.wanted = pending().control.wanted;
    partition.control.active = Some(attempt(2));
    attempts.push(running(2));
    (partition, attempts)
}

/// The first word of what is found after a change to something sound.
fn after(
    sound: (Partition, Vec<AttemptFacts>),
    change: impl Fn(&mut Partition, &mut Vec<AttemptFacts>),
) -> Vec<&'static str> {
    let (mut partition, mut attempts) = sound;
    assert_eq!(check(&partition, &attempts), vec![]);
    change(&mut partition, &mut attempts);
    check(&partition, &attempts).iter().map(|breach| breach.flaw.word()).collect()
}

/// What is done to something sound, and the words for what is then wrong.
type Damage = (&'static [&'static str], fn(&mut Partition, &mut Vec<AttemptFacts>));
type Sound = fn() -> (Partition, Vec<AttemptFacts>);

const SUCCESS: &[Damage] = &[
    (&["no_current_run", "count_without_run", "not_current"], |p, _| p.state.current_run_id = None),
    (&["no_record_count"], |p, _| p.state.record_count = None),
    (&["foreign_run"], |p, _| p.state.current_run_id = Some(run_id(99))),
    (&["not_accepted"], |p, _| p.state.current_run_id = Some(run_id(1))),
    (&["attempt_count"], |p, _| p.state.attempt_count = 3),
    (&["attempt_number"], |_, all| all[1].number = 1),
    (&["attempt_number"], |_, all| all[1].number = 3),
    (&["history"], |_, all| all[1].failures = 1),
    (&["history"], |_, all| all[0].failures = 0),
    (&["history"], |_, all| all[0].failures = 2),
    (&["run_state"], |_, all| all[0].state = State::Waiting),
    (&["error_of_success"], |p, _| p.state.error_message = Some("boom".to_owned())),
    (&["queued"], |p, _| p.control.wanted = pending().control.wanted),
    (&["reprocess"], |p, _| p.control.reprocess = Some(Reprocess::default())),
    (&["hint"], |p, _| p.control.not_before = Some(at(9))),
    (&["mark", "mark_of"], |p, _| p.control.terminal = Some(mark("no"))),
];

const FAILURE: &[Damage] = &[
    (&["no_error"], |p, _| p.state.error_class = None),
    (&["no_error"], |p, _| p.state.error_message = None),
    (&["queued"], |p, _| p.control.wanted = pending().control.wanted),
    (&["mark"], |p, _| p.control.terminal = Some(mark("no"))),
    (&["mark"], |p, _| p.state.error_message = Some("[terminal] boom".to_owned())),
    (&["reprocess"], |p, _| p.control.reprocess = Some(Reprocess::default())),
    (&["lost"], |p, _| p.state.status = Status::Pending),
    (&["count_without_run"], |p, _| p.state.record_count = Some(0)),
    (&["not_current", "attempt_count"], |_, all| all.push(passed(2))),
];

const UNDER_WAY: &[Damage] = &[
    (&["unclaimed"], |p, _| p.control.active = None),
    (&["not_running"], |_, all| all.truncate(1)),
    (&["not_running"], |_, all| all[1] = ended(2, State::Dead, None)),
    (&["other_fence"], |p, _| p.control.active = Some(InFlight { run_id: run_id(2), task_id: task_id(9) })),
    (&["unwanted"], |p, _| p.control.wanted = None),
    (&["no_lease"], |_, all| all[1].lease_until = None),
    (&["attempt_number"], |_, all| all[1].number = 1),
    (&["two_running", "unclaimed"], |_, all| all.push(AttemptFacts { run_id: run_id(8), ..running(2) })),
    (&["run_state", "attempt_count"], |_, all| (all[1].verdict, all[1].number) = (Some(Verdict::Passed), 2)),
];

#[test]
fn every_kind_of_damage_is_named_and_nothing_else_is() {
    let mut named = BTreeSet::new();
    let wards: [(Sound, &[Damage]); 3] = [(success, SUCCESS), (failure, FAILURE), (under_way, UNDER_WAY)];
    for (sound, damages) in wards {
        for (expected, damage) in damages {
            let found: BTreeSet<_> = after(sound(), damage).into_iter().collect();
            assert_eq!(found, expected.iter().copied().collect());
            named.extend(found);
        }
    }
    let source = include_str!("../src/invariants/breach.rs");
    let words = source.lines().filter_map(|line| line.strip_suffix("\",")?.rsplit_once("=> \"").map(|(_, word)| word));
    assert_eq!(named, words.collect());
}

/// A reprocessing was accepted, and the earlier run is still the current one.
#[test]
fn the_run_that_was_accepted_last_is_the_current_one() {
    let newer = |p: &mut Partition, all: &mut Vec<AttemptFacts>| {
        p.state.attempt_count = 3;
        all.push(passed(3));
    };
    assert_eq!(after(success(), newer), ["not_current"]);
    let swapped = |p: &mut Partition, all: &mut Vec<AttemptFacts>| {
        newer(p, all);
        p.state.current_run_id = Some(run_id(3));
    };
    assert_eq!(after(success(), swapped), Vec::<&str>::new());
}

#[test]
fn a_reprocessing_under_way_and_a_run_that_was_given_back_are_sound() {
    let reprocess = |p: &mut Partition, all: &mut Vec<AttemptFacts>| {
        p.control.wanted = Some(Wanted { queued_at: at(3), ..pending().control.wanted.unwrap() });
        p.control.reprocess = Some(Reprocess::default());
        p.control.active = Some(attempt(3));
        all.push(running(3));
        all.push(AttemptFacts { run_id: run_id(7), ..ended(3, State::Dead, None) });
    };
    assert_eq!(after(success(), reprocess), Vec::<&str>::new());
}

#[test]
fn a_rejected_reprocess_that_waits_for_its_hint_is_sound() {
    let rejected = |p: &mut Partition, all: &mut Vec<AttemptFacts>| {
        p.control.reprocess = Some(Reprocess { rejected: 1 });
        p.control.not_before = Some(at(9));
        p.state.attempt_count += 1;
        all.push(failed(3));
    };
    assert_eq!(after(success(), rejected), Vec::<&str>::new());
}

#[test]
fn a_breach_names_the_key_and_the_run() {
    let (mut partition, attempts) = success();
    partition.state.current_run_id = Some(run_id(1));
    let [breach] = &check(&partition, &attempts)[..] else { panic!("one breach") };
    let run = run_id(1);
    assert_eq!(breach.flaw.run_id(), Some(run));
    let said = format!("{}: its current run {run} is dead with the verdict failed, and not an accepted one", key());
    assert_eq!(breach.to_string(), said);
}

#[test]
fn a_passed_lease_is_no_breach() {
    let (partition, attempts) = under_way();
    assert!(attempts[1].is_overdue(at(60)) && !attempts[1].is_overdue(at(59)));
    assert!(!attempts[0].is_overdue(at(60)));
    assert_eq!(check(&partition, &attempts), vec![]);
}
