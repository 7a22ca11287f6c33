//! The invariants themselves.

use super::attempt::AttemptFacts;
use super::breach::{Breach, Flaw};
use crate::failure::TERMINAL_MARK;
use crate::partition::{InFlight, Partition, Status};
use crate::run::{State, Verdict};

/// What is wrong with a partition, given every attempt of it in any order. Times are not compared: clocks may jump.
pub fn check(partition: &Partition, attempts: &[AttemptFacts]) -> Vec<Breach> {
    let mut flaws = Vec::new();
    current_run(partition, attempts, &mut flaws);
    numbers(partition, attempts, &mut flaws);
    attempts.iter().for_each(|attempt| on_its_own(attempt, &mut flaws));
    in_flight(partition, attempts, &mut flaws);
    status(partition, attempts, &mut flaws);
    marks(partition, &mut flaws);
    flaws.into_iter().map(|flaw| Breach { key: partition.state.key.clone(), flaw }).collect()
}

/// The current run is the one that was accepted last; its records are counted.
fn current_run(Partition { state, .. }: &Partition, attempts: &[AttemptFacts], flaws: &mut Vec<Flaw>) {
    let last = attempts.iter().filter(|attempt| attempt.is_accepted()).max_by_key(|attempt| attempt.number);
    let Some(run) = state.current_run_id else {
        if state.status == Status::Success {
            flaws.push(Flaw::NoCurrentRun);
        }
        flaws.extend(state.record_count.map(|records| Flaw::CountWithoutRun { records }));
        flaws.extend(last.map(|last| Flaw::NotCurrent { run: last.run_id }));
        return;
    };
    if state.record_count.is_none() {
        flaws.push(Flaw::NoRecordCount { run });
    }
    match attempts.iter().find(|attempt| attempt.run_id == run) {
        None => flaws.push(Flaw::ForeignRun { run }),
        Some(AttemptFacts { state, verdict, .. }) if *state != State::Done || *verdict != Some(Verdict::Passed) => {
            flaws.push(Flaw::NotAccepted { run, state: *state, verdict: *verdict });
        }
        Some(_) => {
            let later = last.filter(|last| last.run_id != run);
            flaws.extend(later.map(|last| Flaw::NotCurrent { run: last.run_id }));
        }
    }
}

/// Every verdict counts once: attempts with one are numbered 1, 2, 3 and so on. One that was given back has none, and
/// leaves its number to the next.
fn numbers(Partition { state, .. }: &Partition, attempts: &[AttemptFacts], flaws: &mut Vec<Flaw>) {
    let mut judged: Vec<_> = attempts.iter().filter(|attempt| attempt.verdict.is_some()).collect();
    judged.sort_unstable_by_key(|attempt| (attempt.number, attempt.run_id));
    if u32::try_from(judged.len()) != Ok(state.attempt_count) {
        flaws.push(Flaw::AttemptCount { says: state.attempt_count, verdicts: judged.len() });
    }
    let wrong = (1..).zip(judged).find(|(due, attempt)| attempt.number != *due);
    flaws.extend(wrong.map(|(due, attempt)| Flaw::AttemptNumber { run: attempt.run_id, found: attempt.number, due }));
    let due = state.attempt_count.saturating_add(1);
    let running = attempts.iter().filter(|attempt| attempt.is_running() && attempt.number != due);
    flaws.extend(running.map(|attempt| Flaw::AttemptNumber { run: attempt.run_id, found: attempt.number, due }));
}

/// State, verdict and history of one attempt tell the same story.
fn on_its_own(attempt: &AttemptFacts, flaws: &mut Vec<Flaw>) {
    let &AttemptFacts { run_id: run, state, verdict, failures, .. } = attempt;
    let possible = match state {
        State::Running => verdict.is_none(),
        State::Done => verdict == Some(Verdict::Passed),
        State::Dead => matches!(verdict, None | Some(Verdict::Failed)),
        State::Storing | State::Queued | State::Waiting => false,
    };
    if !possible {
        flaws.push(Flaw::RunState { run, state, verdict });
    }
    let expected = match verdict {
        Some(Verdict::Failed) => 1,
        Some(Verdict::Passed | Verdict::NeedsReview) | None => 0,
    };
    if failures != expected {
        flaws.push(Flaw::History { run, verdict, failures });
    }
    if attempt.is_running() && attempt.lease_until.is_none() {
        flaws.push(Flaw::NoLease { run });
    }
}

/// At most one attempt is under way, and it is the one that the partition names.
fn in_flight(Partition { control, .. }: &Partition, attempts: &[AttemptFacts], flaws: &mut Vec<Flaw>) {
    let mut running = attempts.iter().filter(|attempt| attempt.is_running());
    if let (Some(one), Some(other)) = (running.next(), running.next()) {
        flaws.push(Flaw::TwoRunning { run: one.run_id, other: other.run_id });
    }
    let known = |attempt: &AttemptFacts| control.active.is_some_and(|active| active.run_id == attempt.run_id);
    let unknown = attempts.iter().filter(|attempt| attempt.is_running() && !known(attempt));
    flaws.extend(unknown.map(|attempt| Flaw::Unclaimed { run: attempt.run_id }));
    let Some(InFlight { run_id: run, task_id }) = control.active else { return };
    match attempts.iter().find(|attempt| attempt.run_id == run) {
        Some(attempt) if !attempt.is_running() => {
            flaws.push(Flaw::NotRunning { run, state: Some(attempt.state) });
        }
        Some(attempt) if attempt.task_id != Some(task_id) => flaws.push(Flaw::OtherFence { run }),
        Some(_) => {}
        None => flaws.push(Flaw::NotRunning { run, state: None }),
    }
    if control.wanted.is_none() {
        flaws.push(Flaw::Unwanted { run });
    }
}

/// The status, the queue and the error go together.
fn status(Partition { state, control }: &Partition, attempts: &[AttemptFacts], flaws: &mut Vec<Flaw>) {
    let status = state.status;
    let has_error = (state.error_class.is_some(), state.error_message.is_some());
    match status {
        Status::Pending => {
            // An undo withdraws what a backfill made: such a one has never been claimed, and is nowhere by intention.
            let withdrawn = state.attempt_count == 0 && attempts.is_empty();
            if control.wanted.is_none() && control.active.is_none() && !withdrawn {
                flaws.push(Flaw::Lost);
            }
        }
        Status::Failed => {
            if has_error != (true, true) {
                flaws.push(Flaw::NoError);
            }
            if control.wanted.is_some() {
                flaws.push(Flaw::Queued { status });
            }
        }
        Status::Success => {
            if has_error != (false, false) {
                flaws.push(Flaw::ErrorOfSuccess);
            }
            if control.wanted.is_some() && control.reprocess.is_none() {
                flaws.push(Flaw::Queued { status });
            }
        }
    }
    if let Some(request) = control.reprocess
        && (status != Status::Success || (control.wanted.is_none() && request.rejected == 0))
    {
        flaws.push(Flaw::Reprocess { status });
    }
}

/// Marks and hints are only where they mean something.
fn marks(Partition { state, control }: &Partition, flaws: &mut Vec<Flaw>) {
    let status = state.status;
    let prefixed = state.error_message.as_deref().is_some_and(|text| text.starts_with(TERMINAL_MARK));
    if control.terminal.is_some() != prefixed {
        flaws.push(Flaw::Mark);
    }
    if control.terminal.is_some() && status != Status::Failed {
        flaws.push(Flaw::MarkOf { status });
    }
    let sent_back = control.wanted.is_some();
    if control.not_before.is_some() && status != Status::Failed && !control.reprocess_rejected() && !sent_back {
        flaws.push(Flaw::Hint { status });
    }
}
