//! The few changes that are made for many runs at once agree with `core::run::apply`: claims, retries that come due, heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{EndedBy, Event, Run, State, Verdict, Work, Workload, apply};
use redrive_core::time::Timestamp;
use redrive_store::{HeartbeatAnswer, RunClaim, RunPage};
use uuid::Uuid;

use crate::property::{check, wait};
use crate::raw::Raw;
use crate::steps::job_claim;
use crate::support::{LEASE, START, TestStore};

const CATEGORIES: &[&str] = &["a", "b", "any%"];

fn moments() -> impl Strategy<Value = Timestamp> {
    // Near the present, so that both sides of it and the present itself are met.
    prop_oneof![Just(0i64), -3i64..=3, -1_000_000i64..1_000_000]
        .prop_map(|micros| Timestamp::from_micros(START.micros() + micros))
}

fn text() -> impl Strategy<Value = Option<String>> {
    option::of(select(&["x", "it's", "{\"n\":1}", "é"][..]).prop_map(str::to_owned))
}

/// Any run that the tables can hold, with what every running one has.
fn runs() -> impl Strategy<Value = Run> {
    let job =
        select(CATEGORIES).prop_map(|category| Work::Process { category: category.to_owned(), external_id: None });
    let upload = text().prop_map(|name| Work::Ingest { upload: name.unwrap_or_default() });
    let work = prop_oneof![2 => job, 1 => upload];
    let counts = (select(State::ALL), 0u32..5, 0u32..5);
    let times = (moments(), option::of(moments()), option::of(moments()), option::of(moments()), moments());
    let errors = (option::of(select(ErrorClass::ALL)), text(), text(), text());
    let ends = (option::of(select(Verdict::ALL)), text(), 1u128..9);
    let spec = (option::of(moments()), option::of(1u32..9), 0u64..9, 1u64..9);
    (work, counts, times, errors, ends, spec).prop_map(|(work, counts, times, errors, ends, spec)| {
        let state = counts.0;
        let ended = matches!(state, State::Done | State::Dead);
        Run {
            run_id: RunId::from_uuid(Uuid::nil()),
            work,
            state,
            attempt: counts.1,
            retry_count: counts.2,
            rate_limit_waited: Duration::from_secs(spec.2),
            submitted_at: times.0,
            not_before: spec.0,
            max_attempts: spec.1,
            next_retry_at: times.1,
            error_class: errors.0,
            error_message: errors.1,
            error_traceback: errors.2,
            task_id: Some(TaskId::from_uuid(Uuid::from_u128(ends.2))),
            worker: errors.3,
            started_at: times.2,
            last_heartbeat: times.3,
            awaits_ack: false,
            lease_until: match state {
                State::Running => Some(times.4),
                State::Waiting | State::Dead => spec.0,
                State::Storing | State::Queued | State::Done => None,
            },
            completed_at: Some(times.4).filter(|_| ended),
            ended_by: Some(EndedBy::Completed).filter(|_| ended),
            verdict: ends.0.filter(|_| ended),
            metrics: ends.1,
            version: spec.3,
        }
    })
}

fn many() -> impl Strategy<Value = Vec<Run>> {
    vec(runs(), 1..40).prop_map(|mut runs| {
        for (run, nth) in runs.iter_mut().zip(1..) {
            run.run_id = RunId::new(run.submitted_at, nth);
        }
        runs
    })
}

/// The statements that put a run into the tables as it is.
fn rows_of(raw: &Raw, run: &Run) -> String {
    let text = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")));
    let time = |time: Option<Timestamp>| time.map_or("NULL".to_owned(), |time| time.micros().to_string());
    let (id, workload, category) =
        (raw.id(run.run_id.uuid()), text(Some(run.workload().as_str())), text(Some(run.work.category())));
    let subject = text(match &run.work {
        Work::Ingest { upload } => Some(upload),
        Work::Extract(_) | Work::Process { .. } => None,
    });
    let attempts = run.max_attempts.map_or("NULL".to_owned(), |attempts| attempts.to_string());
    let (submitted_at, not_before) = (time(Some(run.submitted_at)), time(run.not_before));
    let state = text(Some(run.state.as_str()));
    let (table, names, values) = match run.state {
        State::Storing | State::Waiting => {
            ("run_waiting", "state, due_at, lease_until", vec![state, time(run.due_at()), time(run.lease_until)])
        }
        State::Queued => ("run_queue", "", vec![]),
        State::Running => ("run_claims", "lease_until", vec![time(run.lease_until)]),
        State::Done | State::Dead => (
            "run_ends",
            "state, completed_at, ended_by, verdict, lease_until",
            vec![
                state,
                time(run.completed_at),
                text(run.ended_by.map(EndedBy::as_str)),
                text(run.verdict.map(Verdict::as_str)),
                time(run.lease_until),
            ],
        ),
    };
    let mut all = vec![
        workload.clone(),
        category.clone(),
        id.clone(),
        run.version.to_string(),
        run.attempt.to_string(),
        run.retry_count.to_string(),
        run.rate_limit_waited.as_micros().to_string(),
        time(run.next_retry_at),
        text(run.error_class.map(ErrorClass::as_str)),
        text(run.error_message.as_deref()),
        text(run.error_traceback.as_deref()),
        run.task_id.map_or("NULL".to_owned(), |task| raw.id(task.uuid())),
        text(run.worker.as_deref()),
        time(run.started_at),
        time(run.last_heartbeat),
        text(run.metrics.as_deref()),
    ];
    all.extend(values);
    let names = if names.is_empty() { String::new() } else { format!(", {names}") };
    format!(
        "INSERT INTO run_specs (run_id, workload, category, subject, submitted_at, not_before, max_attempts) \
         VALUES ({id}, {workload}, {category}, {subject}, {submitted_at}, {not_before}, {attempts}); \
         INSERT INTO {table} (workload, category, run_id, version, attempt, retry_count, rate_limit_waited, \
         next_retry_at, error_class, error_message, error_traceback, task_id, worker, started_at, last_heartbeat, \
         metrics{names}) VALUES ({}); ",
        all.join(", ")
    )
}

async fn put(raw: &Raw, runs: &[Run]) {
    let tables = ["run_specs", "run_waiting", "run_queue", "run_claims", "run_bundles", "run_ends"];
    let mut sql: String = tables.iter().map(|table| format!("DELETE FROM {table}; ")).collect();
    sql.extend(runs.iter().map(|run| rows_of(raw, run)));
    raw.run(&format!("BEGIN; {sql} COMMIT")).await;
}

async fn all(subject: &TestStore) -> BTreeMap<RunId, Run> {
    let page = RunPage { limit: 1000, ..RunPage::default() };
    let runs = subject.store.view().runs(page).await.unwrap();
    runs.into_iter().map(|run| (run.run_id, run)).collect()
}

fn after(run: &Run, event: Event) -> Option<Run> {
    apply(run, event, START).ok().map(|change| change.after)
}

/// AR-6, AR-7, AR-8, AR-9, AR-10, IN-2
async fn claiming_is_due_and_claimed_of_the_oldest(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    let categories = option::of(vec(select(CATEGORIES).prop_map(str::to_owned), 0..3));
    check(40, (many(), 0u32..12, categories), |(runs, limit, categories)| {
        let asked = RunClaim { categories: categories.clone(), ..job_claim(limit) };
        wait(put(&raw, &runs));
        let claimed = wait(subject.store.data().claim_runs(asked)).unwrap();
        let now = wait(all(&subject));

        let due = runs.iter().map(|run| match run.workload() {
            Workload::Process => after(run, Event::Due).unwrap_or_else(|| run.clone()),
            Workload::Extract | Workload::Ingest => run.clone(),
        });
        let mut expected: BTreeMap<RunId, Run> = due.map(|run| (run.run_id, run)).collect();
        let mut open: Vec<Timestamp> = expected
            .values()
            .filter(|run| run.workload() == Workload::Process && run.state == State::Queued)
            .filter(|run| {
                categories.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == run.work.category()))
            })
            .map(|run| run.submitted_at)
            .collect();
        open.sort();
        open.truncate(limit as usize);
        prop_assert_eq!(claimed.iter().map(|claimed| claimed.run.submitted_at).collect::<Vec<_>>(), open);
        let lease_until = START.saturating_add(LEASE);
        for claimed in claimed {
            let slot = expected.get_mut(&claimed.run.run_id).unwrap();
            prop_assert!(
                categories.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == slot.work.category()))
            );
            let task_id = claimed.run.task_id.unwrap();
            *slot = after(slot, Event::Claimed { task_id, worker: "w1".to_owned(), lease_until }).unwrap();
            prop_assert_eq!(&claimed.run, &*slot);
        }
        prop_assert_eq!(now, expected);
        Ok(())
    });
}

/// IN-5: also when the lease has passed, or the claim is another's.
async fn a_heartbeat_is_the_event_beat(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    check(40, (many(), vec(1u128..9, 40)), |(runs, tasks)| {
        wait(put(&raw, &runs));
        let tasks = tasks.into_iter().map(|task| TaskId::from_uuid(Uuid::from_u128(task)));
        let held: Vec<_> = runs.iter().map(|run| run.run_id).zip(tasks).collect();
        let lease = Duration::from_secs(33);
        let beaten = wait(subject.store.data().beat(held.clone(), lease)).unwrap().answers;
        let now = wait(all(&subject));
        for ((run, (_, task_id)), beaten) in runs.iter().zip(held).zip(beaten) {
            let expected = after(run, Event::Beat { task_id, lease_until: START.saturating_add(lease) });
            prop_assert_eq!(expected.is_some(), beaten == HeartbeatAnswer::Held);
            prop_assert_eq!(&now[&run.run_id], expected.as_ref().unwrap_or(run));
        }
        Ok(())
    });
}

crate::on_both_databases!(claiming_is_due_and_claimed_of_the_oldest, a_heartbeat_is_the_event_beat);
