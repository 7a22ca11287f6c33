//! `docs/state-machine.md` is what the rules do: every cell of its tables is compared with `apply`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::partition::{self, ControlEvent, ControlSnapshot, DataEvent, Judgement, Partition, Status, Terminal};
use redrive_core::refusal::Refused;
use redrive_core::retry::{Grant, RetryPolicy};
use redrive_core::run::{self, End, Fault, Run, RunSnapshot, State, Verdict, Workload};
use redrive_core::time::Timestamp;
use specimen::{at, attempt, policy, rejection, task_id};

/// (state, event) → what happens.
type Cells = BTreeMap<(String, String), String>;

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-machine.md");

/// The cells of all tables under one `## ` heading. Every table must show the same states in the same order.
fn cells(doc: &str, heading: &str) -> (Vec<String>, Vec<String>, Cells) {
    let section: Vec<&str> = doc
        .lines()
        .skip_while(|line| *line != format!("## {heading}"))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .collect();
    let (mut states, mut events, mut cells) = (Vec::new(), Vec::new(), Cells::new());
    for table in section.split(|line| !line.starts_with('|')).filter(|table| !table.is_empty()) {
        let mut rows = table.iter().map(|line| {
            let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
            inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect::<Vec<_>>()
        });
        let header = rows.next().unwrap();
        let body: Vec<_> = rows.skip(1).collect();
        let shown: Vec<String> = body.iter().map(|row| row[0].clone()).collect();
        assert!(states.is_empty() || states == shown, "the tables of {heading:?} show different states");
        states = shown;
        for row in body {
            assert_eq!(row.len(), header.len(), "{row:?} has not one cell for each of {header:?}");
            for (event, cell) in header.iter().zip(&row).skip(1) {
                let twice = cells.insert((row[0].clone(), event.clone()), cell.clone());
                assert_eq!(twice, None, "{event:?} of {:?} is shown twice", row[0]);
            }
        }
        events.extend(header.into_iter().skip(1));
    }
    assert!(!states.is_empty(), "there is no table under {heading:?} in {DOC}");
    (states, events, cells)
}

fn compare<S, E: Copy>(
    heading: &str,
    states: &[(&str, S)],
    events: &[(&str, E)],
    happens: impl Fn(&S, &str, E) -> String,
) {
    let doc = std::fs::read_to_string(DOC).unwrap();
    let (shown_states, shown_events, cells) = cells(&doc, heading);
    assert_eq!(shown_states, states.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "rows under {heading:?}");
    assert_eq!(shown_events, events.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "columns under {heading:?}");
    let mut wrong = Vec::new();
    for (state, start) in states {
        for (event, kind) in events {
            let (doc, really) = (&cells[&((*state).to_owned(), (*event).to_owned())], happens(start, event, *kind));
            if *doc != really {
                wrong.push(format!("{state} × {event}: the page says {doc:?}, it is {really:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/state-machine.md, {heading}:\n{}", wrong.join("\n"));
}

fn refusal(refused: Refused) -> String {
    match refused {
        Refused::NoOp(reason) => format!("– {reason}"),
        Refused::Rule(reason) => format!("✗ {reason}"),
    }
}

const NOW: Timestamp = at(100);

fn partitions() -> [(&'static str, Partition); 12] {
    use specimen::{
        exhausted, failed, in_flight, marked, paused, pending, reprocess_rejected, reprocess_requested, reprocessing,
        success,
    };
    [
        ("pending", pending()),
        ("pending, in flight", in_flight()),
        ("pending, paused", paused(pending())),
        ("pending, rate-limited", rate_limited(pending())),
        ("failed", failed()),
        ("failed, marked terminal", marked()),
        ("failed, terminal by policy", exhausted()),
        ("failed, paused", paused(failed())),
        ("success", success()),
        ("success, reprocess requested", reprocess_requested()),
        ("success, reprocess in flight", reprocessing()),
        ("success, reprocess rejected", reprocess_rejected()),
    ]
}

/// A source said when to come again.
fn rate_limited(mut partition: Partition) -> Partition {
    partition.control.not_before = Some(Timestamp::MAX);
    partition
}

/// The row a partition belongs to; for a combination that has no row, the words of all that apply.
fn standing_in_words(partition: &Partition) -> String {
    let control = &partition.control;
    let mut words = vec![partition.state.status.as_str()];
    match partition.state.status {
        Status::Pending => words.extend(control.active.map(|_| "in flight")),
        Status::Success => match (control.reprocess, control.active) {
            (None, None) => {}
            (Some(_), None) if control.reprocess_rejected() => words.push("reprocess rejected"),
            (Some(_), None) => words.push("reprocess requested"),
            (Some(_), Some(_)) => words.push("reprocess in flight"),
            (None, Some(_)) => words.push("in flight unasked"),
        },
        Status::Failed => match partition::terminal(partition, &policy(), NOW) {
            Some(Terminal::Marked(_)) => words.push("marked terminal"),
            Some(Terminal::ByPolicy(_)) => words.push("terminal by policy"),
            None => {}
        },
    }
    let waits = control.wanted.is_some() && control.not_before.is_some_and(|until| until > NOW);
    words.extend(waits.then_some("rate-limited"));
    words.extend(control.paused.as_ref().map(|_| "paused"));
    words.join(", ")
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ask {
    Retry { clear_terminal: bool, stale: bool, grant: Option<Grant> },
    Reprocess,
    Withdraw,
    Backfill { force_pending: bool },
    MarkTerminal { threshold: u32 },
    ClearTerminal,
    Pause,
    Resume,
    Undo { changed_since: bool },
    Claimed,
    Released { stale: bool },
    RateLimited,
    Accepted,
    Rejected,
    RejectedFinal,
    AcceptedStale,
    RejectedAtLimit,
}

const PARTITION_EVENTS: [(&str, Ask); 24] = [
    ("retry", Ask::Retry { clear_terminal: false, stale: false, grant: None }),
    ("retry --clear-terminal", Ask::Retry { clear_terminal: true, stale: false, grant: None }),
    ("retry --grant", Ask::Retry { clear_terminal: false, stale: false, grant: Some(Grant::Full) }),
    ("retry --stale", Ask::Retry { clear_terminal: false, stale: true, grant: None }),
    ("reprocess", Ask::Reprocess),
    ("reprocess --withdraw", Ask::Withdraw),
    ("backfill", Ask::Backfill { force_pending: false }),
    ("backfill --force-pending", Ask::Backfill { force_pending: true }),
    ("mark-terminal", Ask::MarkTerminal { threshold: 1 }),
    ("mark-terminal below threshold", Ask::MarkTerminal { threshold: 4 }),
    ("clear-terminal", Ask::ClearTerminal),
    ("pause", Ask::Pause),
    ("resume", Ask::Resume),
    ("undo", Ask::Undo { changed_since: false }),
    ("undo after a change", Ask::Undo { changed_since: true }),
    ("claimed", Ask::Claimed),
    ("released", Ask::Released { stale: false }),
    ("released, stale fence", Ask::Released { stale: true }),
    ("rate-limited", Ask::RateLimited),
    ("accepted", Ask::Accepted),
    ("rejected", Ask::Rejected),
    ("rejected, final", Ask::RejectedFinal),
    ("accepted, stale fence", Ask::AcceptedStale),
    ("rejected past max_attempts", Ask::RejectedAtLimit),
];

fn move_partition(partition: &Partition, column: &str, ask: Ask) -> String {
    let policy = policy();
    let current = partition.control.active.unwrap_or(attempt(1));
    let accepted = Judgement::Accepted { records: 1 };
    let mut start = partition.clone();
    // An undo of whatever last paused or resumed it, as an operation that leaves every state possible.
    let earlier = ControlSnapshot {
        paused: match partition.control.paused {
            Some(_) => None,
            None => Some(specimen::mark("earlier")),
        },
        ..partition.snapshot()
    };
    let control = partition::Event::Control;
    let data = partition::Event::Data;
    let event = match ask {
        Ask::Retry { clear_terminal, stale, grant } => {
            control(ControlEvent::Retry { policy: &policy, clear_terminal, stale, grant })
        }
        Ask::Reprocess => control(ControlEvent::Reprocess),
        Ask::Withdraw => control(ControlEvent::Withdraw),
        Ask::Backfill { force_pending } => control(ControlEvent::Backfill { policy: &policy, force_pending }),
        Ask::MarkTerminal { threshold } => control(ControlEvent::MarkTerminal { by: "ada", why: None, threshold }),
        Ask::ClearTerminal => control(ControlEvent::ClearTerminal),
        Ask::Pause => control(ControlEvent::Pause { by: "ada", why: None }),
        Ask::Resume => control(ControlEvent::Resume),
        Ask::Undo { changed_since } => {
            let from_version = partition.state.version - u64::from(changed_since);
            control(ControlEvent::Revert { to: &earlier, from_version })
        }
        Ask::Claimed => data(DataEvent::Claimed(attempt(2))),
        Ask::Released { stale } => data(DataEvent::Released(if stale { attempt(3) } else { current })),
        Ask::RateLimited => data(DataEvent::RateLimited { attempt: current, until: Timestamp::MAX }),
        Ask::Accepted => data(DataEvent::Judged(current, accepted)),
        Ask::Rejected => data(DataEvent::Judged(current, rejection("boom"))),
        Ask::RejectedFinal => {
            let judgement =
                Judgement::Rejected { class: ErrorClass::Final, message: "gone".to_owned(), not_before: None };
            data(DataEvent::Judged(current, judgement))
        }
        Ask::AcceptedStale => data(DataEvent::Judged(attempt(3), accepted)),
        Ask::RejectedAtLimit => {
            start.state.attempt_count = policy.max_attempts.unwrap();
            data(DataEvent::Judged(current, rejection("boom")))
        }
    };
    assert!(column.starts_with(partition_column(&event)), "{column} is about {event:?}");
    match partition::apply(&start, event, NOW) {
        Err(refused) => refusal(refused),
        Ok(change) if matches!(ask, Ask::Undo { .. }) => {
            let version = change.after.state.version;
            assert_eq!(change.after.snapshot(), ControlSnapshot { version, ..earlier });
            "as it was".to_owned()
        }
        Ok(change) => standing_in_words(&change.after),
    }
}

/// Whoever adds an event is sent here by the compiler, to give it a column.
fn partition_column(event: &partition::Event<'_>) -> &'static str {
    match event {
        partition::Event::Control(ControlEvent::Retry { .. }) => "retry",
        partition::Event::Control(ControlEvent::Reprocess | ControlEvent::Withdraw) => "reprocess",
        partition::Event::Control(ControlEvent::Backfill { .. }) => "backfill",
        partition::Event::Control(ControlEvent::MarkTerminal { .. }) => "mark-terminal",
        partition::Event::Control(ControlEvent::ClearTerminal) => "clear-terminal",
        partition::Event::Control(ControlEvent::Pause { .. }) => "pause",
        partition::Event::Control(ControlEvent::Resume) => "resume",
        partition::Event::Control(ControlEvent::Revert { .. }) => "undo",
        partition::Event::Data(DataEvent::Claimed(_)) => "claimed",
        partition::Event::Data(DataEvent::Released(_)) => "released",
        partition::Event::Data(DataEvent::RateLimited { .. }) => "rate-limited",
        partition::Event::Data(DataEvent::Judged(_, Judgement::Accepted { .. })) => "accepted",
        partition::Event::Data(DataEvent::Judged(_, Judgement::Rejected { .. })) => "rejected",
    }
}

#[test]
fn the_page_says_of_partitions_what_apply_does() {
    for (name, partition) in partitions() {
        assert_eq!(standing_in_words(&partition), name, "the specimen is what its row says");
    }
    compare("Partitions", &partitions(), &PARTITION_EVENTS, move_partition);
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Stored,
    NotStored,
    Due,
    Claimed,
    Delivered,
    Beat,
    Released,
    RateLimited,
    Completed,
    Failed(ErrorClass, Option<u64>),
    LastTry,
    StaleFence,
    LeaseExpired,
    RateLimitedPastBudget,
    Retry,
    Cancel,
    Undo { changed_since: bool },
}

const RUN_EVENTS: [(&str, Happens); 20] = [
    ("stored", Happens::Stored),
    ("not stored", Happens::NotStored),
    ("due", Happens::Due),
    ("claimed", Happens::Claimed),
    ("delivered", Happens::Delivered),
    ("beat", Happens::Beat),
    ("released", Happens::Released),
    ("rate-limited", Happens::RateLimited),
    ("completed", Happens::Completed),
    ("completed, stale fence", Happens::StaleFence),
    ("failed, retryable", Happens::Failed(ErrorClass::Retryable, None)),
    ("failed, rate-limited with a hint", Happens::Failed(ErrorClass::RateLimited, Some(7))),
    ("failed, rate-limited past the budget", Happens::RateLimitedPastBudget),
    ("failed, final", Happens::Failed(ErrorClass::Final, None)),
    ("failed, last attempt", Happens::LastTry),
    ("lease expired", Happens::LeaseExpired),
    ("retry", Happens::Retry),
    ("cancel", Happens::Cancel),
    ("undo", Happens::Undo { changed_since: false }),
    ("undo after a change", Happens::Undo { changed_since: true }),
];

/// Whoever adds an event is sent here by the compiler, to give it a column.
fn run_column(event: &run::Event) -> &'static str {
    match event {
        run::Event::Stored => "stored",
        run::Event::NotStored { .. } => "not stored",
        run::Event::Due => "due",
        run::Event::Claimed { .. } => "claimed",
        run::Event::Delivered { .. } => "delivered",
        run::Event::Beat { .. } => "beat",
        run::Event::Ended { end: End::Released { .. }, .. } => "released",
        run::Event::Ended { end: End::RateLimited { .. }, .. } => "rate-limited",
        run::Event::Ended { end: End::Completed { .. }, .. } => "completed",
        run::Event::Ended { end: End::Failed { .. }, .. } => "failed",
        run::Event::LeaseExpired { .. } => "lease expired",
        run::Event::RetryRequested => "retry",
        run::Event::Cancelled { .. } => "cancel",
        run::Event::Reverted { .. } => "undo",
    }
}

fn move_run(run: &Run, column: &str, happens: Happens) -> String {
    let policy = RetryPolicy::process();
    let task_id = task_id(1);
    let mut start = run.clone();
    let earlier = specimen::waiting(Workload::Process).snapshot();
    let fail = |class, hint: Option<u64>| {
        let retry_after = hint.map(Duration::from_secs);
        let fault = Fault { class, message: "boom".to_owned(), trace: None, retry_after };
        let end = End::Failed { fault, metrics: None, policy: policy.clone() };
        run::Event::Ended { task_id, end }
    };
    let completed =
        |task_id| run::Event::Ended { task_id, end: End::Completed { verdict: Verdict::Passed, metrics: None } };
    let event = match happens {
        Happens::Stored => run::Event::Stored,
        Happens::NotStored => {
            let message = "too large".to_owned();
            let fault = Fault { class: ErrorClass::Final, message, trace: None, retry_after: None };
            run::Event::NotStored { fault, metrics: None }
        }
        Happens::Due => run::Event::Due,
        Happens::Claimed => {
            run::Event::Claimed { task_id: specimen::task_id(2), worker: "w2".to_owned(), lease_until: at(300) }
        }
        Happens::Delivered => run::Event::Delivered { task_id, lease_until: at(300) },
        Happens::Beat => run::Event::Beat { task_id, lease_until: at(300) },
        Happens::Released => run::Event::Ended { task_id, end: End::Released { why: None } },
        Happens::RateLimited => run::Event::Ended { task_id, end: End::RateLimited { message: "429".to_owned() } },
        Happens::Completed => completed(task_id),
        Happens::Failed(class, hint) => fail(class, hint),
        Happens::LastTry => {
            start.retry_count = policy.max_attempts.unwrap() - 1;
            fail(ErrorClass::Retryable, None)
        }
        Happens::RateLimitedPastBudget => {
            start.rate_limit_waited = policy.rate_limit_budget.unwrap();
            fail(ErrorClass::RateLimited, Some(7))
        }
        Happens::StaleFence => completed(specimen::task_id(3)),
        Happens::LeaseExpired => run::Event::LeaseExpired { policy: policy.clone(), limit: None },
        Happens::Retry => run::Event::RetryRequested,
        Happens::Cancel => run::Event::Cancelled { by: "ada".to_owned() },
        Happens::Undo { changed_since } => {
            let from_version = start.version - u64::from(changed_since);
            run::Event::Reverted { to: earlier.clone(), from_version }
        }
    };
    assert!(column.starts_with(run_column(&event)), "{column} is about {event:?}");
    match run::apply(&start, event, NOW) {
        Err(refused) => refusal(refused),
        Ok(change) if matches!(happens, Happens::Undo { .. }) => {
            let version = change.after.version;
            assert_eq!(change.after.snapshot(), RunSnapshot { version, ..earlier });
            "as it was".to_owned()
        }
        Ok(change) => {
            let counted = change.after.retry_count > start.retry_count;
            match change.after.state {
                State::Waiting if counted => "waiting, counted".to_owned(),
                State::Waiting => "waiting, free".to_owned(),
                State::Storing | State::Queued | State::Running | State::Done | State::Dead => {
                    assert!(!counted);
                    change.after.state.to_string()
                }
            }
        }
    }
}

/// A run whose worker may not have heard yet that it was cancelled.
fn cancelled(workload: Workload) -> Run {
    let (ended_by, lease_until) = (Some(run::EndedBy::Cancelled), Some(at(101)));
    Run { ended_by, lease_until, ..specimen::dead(workload) }
}

fn silent(workload: Workload) -> Run {
    Run { lease_until: Some(NOW), ..specimen::running(workload) }
}

#[test]
fn the_page_says_of_archives_and_jobs_what_apply_does() {
    for workload in [Workload::Ingest, Workload::Process] {
        let states = [
            ("storing", Run { state: State::Storing, ..specimen::queued(workload) }),
            ("queued", specimen::queued(workload)),
            ("running", specimen::running(workload)),
            ("running, lease over", silent(workload)),
            ("running, not acknowledged, lease over", Run { awaits_ack: true, ..silent(workload) }),
            ("waiting", Run { next_retry_at: Some(at(101)), ..specimen::waiting(workload) }),
            ("waiting, time come", specimen::waiting(workload)),
            ("done", specimen::done(workload)),
            ("dead", specimen::dead(workload)),
            ("cancelled, lease not over", cancelled(workload)),
        ];
        compare("Runs of archives and jobs", &states, &RUN_EVENTS, move_run);
    }
}

#[test]
fn the_page_says_of_extractions_what_apply_does() {
    let states = [
        ("queued", specimen::queued(Workload::Extract)),
        ("running", specimen::running(Workload::Extract)),
        ("running, lease over", silent(Workload::Extract)),
        ("done", specimen::done(Workload::Extract)),
        ("dead", specimen::dead(Workload::Extract)),
    ];
    compare("Runs of extractions", &states, &RUN_EVENTS, move_run);
}
