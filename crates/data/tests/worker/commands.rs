//! Jobs that a program handles.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{Run, State, Verdict, Work as RunWork};
use redrive_data::process::{Command, CommandSettings, Handler, Section};
use redrive_data::settings::{Surroundings, ValueRef, Variables};
use redrive_data::worker::LeaseTerms;
use redrive_fixture::eventually;
use redrive_store::NewRun;
use serde_json::Value;

use crate::house::{TestDataPlane, Work};
use crate::told::{section, work};

fn command(words: &[&str], directory: &Path, env: BTreeMap<String, ValueRef>) -> Arc<dyn Handler> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let settings = CommandSettings { command: &words, directory: Some(directory), env: &env };
    let variables = Variables::new(|name| (name == "TOKEN").then(|| "s3cr3t-t0ken".to_owned()));
    Arc::new(Command::new(&settings, &Surroundings::with(variables)).unwrap())
}

fn script(house: &TestDataPlane, script: &str) -> Arc<dyn Handler> {
    let token: ValueRef = toml::from_str::<BTreeMap<String, ValueRef>>("T = { env = 'TOKEN' }").unwrap()["T"].clone();
    command(&["/bin/sh", "-c", script], house.database.path(), BTreeMap::from([("TOKEN".to_owned(), token)]))
}

/// One job, handled by a shell script, as it is afterwards.
async fn handled(house: &TestDataPlane, text: &str) -> Run {
    let id = house.submit_jobs("a", 1).await[0];
    house.drain_jobs(vec![section("a", script(house, text))]).await;
    house.run(id).await
}

async fn a_program_gets_the_job_and_answers_on_its_last_line(house: TestDataPlane) {
    let payload = Some("{\"file\":\n \"a b\"}".to_owned());
    let work = RunWork::Process { category: "any%".to_owned(), external_id: Some("r-1".to_owned()) };
    let job = NewRun::new(work, payload, house.store.now());
    let id = house.store.control().submit(vec![job]).await.unwrap()[0].run_id;
    let script = script(
        &house,
        "cat > job; echo $REDRIVE_RUN_ID $REDRIVE_CATEGORY $REDRIVE_ATTEMPT > env; echo talk; \
         echo '{\"verdict\":\"needs_review\",\"metrics\":{\"frames\":7}}'; echo; echo loud >&2",
    );
    let named = Section { categories: vec!["any%".to_owned()], ..section("replays", script) };
    assert_eq!(house.drain_jobs(vec![named]).await.accepted, 1);
    let run = house.run(id).await;
    assert_eq!((run.state, run.verdict), (State::Done, Some(Verdict::NeedsReview)));
    assert!(run.metrics.unwrap().contains("\"frames\":7"));
    let seen = std::fs::read_to_string(house.database.path().join("job")).unwrap();
    assert_eq!(seen.matches('\n').count(), 1, "one line: {seen}");
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["run_id"], id.to_string());
    assert_eq!((&seen["category"], &seen["external_id"]), (&"any%".into(), &"r-1".into()));
    assert_eq!((&seen["attempt"], &seen["retry_count"]), (&1.into(), &0.into()));
    assert_eq!(seen["payload"]["file"], "a b");
    assert!(seen["submitted_at"].as_str().unwrap().ends_with('Z'));
    let env = std::fs::read_to_string(house.database.path().join("env")).unwrap();
    assert_eq!(env.trim(), format!("{id} any% 1"));
}

/// The same table as for extractors.
async fn exits_are_classified_as_for_extractors(house: TestDataPlane) {
    use ErrorClass::{Final, RateLimited, Retryable};
    for (text, class, state) in [
        ("exit 65", Final, State::Dead),
        ("exit 75", Retryable, State::Waiting),
        ("exit 1", Retryable, State::Waiting),
        ("kill -9 $$", Retryable, State::Waiting),
        (r#"echo '{"error_class":"final","message":"m"}' >&2; exit 75"#, Final, State::Dead),
        (r#"echo '{"error_class":"rate_limited","retry_after":30}' >&2; exit 1"#, RateLimited, State::Waiting),
    ] {
        let run = handled(&house, text).await;
        assert_eq!((run.error_class, run.state), (Some(class), state), "{text}");
        assert_eq!(run.retry_count, u32::from(class == Retryable), "{text}");
    }
}

/// A broken contract may be put right before the attempts are exhausted, so it is retryable.
async fn an_end_without_a_verdict_is_a_retryable_failure_that_says_so(house: TestDataPlane) {
    for (text, said) in [
        ("true", "the last line of its stdout is empty, and no verdict"),
        ("echo done", "the last line of its stdout is no verdict: done"),
        ("echo '{\"verdict\":\"ok\"}'", "verdict \"ok\" is unknown; it is one of passed, needs_review, failed"),
        ("echo '{\"verdict\":'", "is no verdict: {\"verdict\":;"),
        ("echo '{\"metrics\":{}}'", "names no verdict"),
        ("echo '{\"verdict\":\"passed\",\"metrics\":[]}'", "metrics is no object"),
        ("echo '{\"verdict\":\"passed\"}'; echo bye", "is no verdict: bye"),
        ("head -c 2000000 /dev/zero | tr '\\0' x", "longer than 1 MiB"),
    ] {
        let run = handled(&house, text).await;
        assert_eq!((run.error_class, run.state), (Some(ErrorClass::Retryable), State::Waiting), "{text}");
        let message = run.error_message.unwrap();
        assert!(message.contains(said), "{text}: {message}");
    }
}

async fn what_a_program_said_is_kept_without_its_secrets(house: TestDataPlane) {
    let run = handled(&house, "echo out $TOKEN; echo err $TOKEN >&2; exit 65").await;
    assert_eq!(run.error_traceback.as_deref(), Some("stdout:\nout ***\nstderr:\nerr ***\n"));
    assert!(run.error_message.unwrap().contains("err ***"));
    let run = handled(&house, "yes 0123456789 | head -c 300000; yes abcdefghi | head -c 300000 >&2; exit 65").await;
    let trace = run.error_traceback.unwrap();
    assert!(
        trace.len() <= 64 << 10 && trace.contains("0123456789") && trace.ends_with("abcdefghi\n"),
        "{}",
        trace.len()
    );
}

/// Much more than would fit: only the end of it is ever held.
async fn a_program_that_prints_without_end_keeps_memory_flat(house: TestDataPlane) {
    let before = resident();
    let text = "yes 'a line of talk that nobody reads' | head -c 1000000000; echo; echo '{\"verdict\":\"passed\"}'";
    let run = handled(&house, text).await;
    assert_eq!(run.state, State::Done, "{:?}", run.error_message);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB more", grown >> 20);
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn a_cancel_and_a_time_out_kill_everything_the_program_started(house: TestDataPlane) {
    let text = "trap '' TERM; sleep 1000 & echo $$ $! >> pids; echo waiting for a lock >&2; wait";
    let ids = house.submit_jobs("a", 1).await;
    let terms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_millis(50) };
    let sections = vec![section("a", script(&house, text))];
    let working = tokio::spawn(house.serve(sections, Work { terms, ..work() }).await.0.run());
    eventually("the program is at work", async || pids(&house).len() == 2).await;
    house.cancel(ids[0]).await;
    assert_eq!(working.await.unwrap().unwrap().cancelled, 1);
    let id = house.submit_jobs("a", 1).await[0];
    let slow = Section { timeout: Duration::from_millis(300), ..section("a", script(&house, text)) };
    house.drain_jobs(vec![slow]).await;
    let run = house.run(id).await;
    assert_eq!(run.error_message.as_deref(), Some("timed out after 0.3 s: waiting for a lock"));
    assert_eq!(run.error_traceback.as_deref(), Some("waiting for a lock\n"));
    let pids = pids(&house);
    assert_eq!(pids.len(), 4);
    eventually("no process is left", async || !pids.iter().any(|pid| is_alive(pid))).await;
}

fn pids(house: &TestDataPlane) -> Vec<String> {
    let text = std::fs::read_to_string(house.database.path().join("pids")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// A process that has only to be reaped is gone.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// DESIGN 4.11: nothing of it is the job's fault.
async fn a_program_that_is_missing_costs_no_attempt(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    let missing = command(&["./missing"], house.database.path(), BTreeMap::new());
    let error = house.serve(vec![section("a", missing)], work()).await.0.run().await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("[process.a] cannot be used: ")
            && error.ends_with("/missing does not exist; correct command"),
        "{error}"
    );
    let run = house.run(id).await;
    assert_eq!((run.state, run.attempt, run.retry_count, run.error_class), (State::Queued, 0, 0, None));
}

redrive_fixture::on_both_databases!(
    a_program_gets_the_job_and_answers_on_its_last_line,
    exits_are_classified_as_for_extractors,
    an_end_without_a_verdict_is_a_retryable_failure_that_says_so,
    what_a_program_said_is_kept_without_its_secrets,
    a_program_that_prints_without_end_keeps_memory_flat,
    a_cancel_and_a_time_out_kill_everything_the_program_started,
    a_program_that_is_missing_costs_no_attempt,
);
