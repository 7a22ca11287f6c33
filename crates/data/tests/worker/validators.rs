//! `validate.command`: a program that is shown the records and says whether they are right.

use std::path::Path;
use std::sync::Arc;

use redrive_core::failure::ErrorClass;
use redrive_core::hold::SOURCE_UNUSABLE;
use redrive_core::partition::Status;
use redrive_core::run::Run;
use redrive_data::settings::{Surroundings, Variables};
use redrive_data::validate::{Settings, ValidatorProgram};

use crate::house::{TestDataPlane, Work, key};
use crate::source::{Act, Source};

const TOKEN: &str = "s3cr3t-t0ken";

fn program(directory: &Path, command: &str, more: &str) -> Arc<ValidatorProgram> {
    let directory = directory.display();
    let settings =
        format!("command = {command}\ndirectory = '{directory}'\nenv = {{ TOKEN = {{ env = 'TOKEN' }} }}\n{more}");
    let settings: Settings = toml::from_str(&settings).unwrap();
    let around = Surroundings::with(Variables::new(|name| (name == "TOKEN").then(|| TOKEN.to_owned())));
    Arc::new(settings.program(&around).unwrap().unwrap())
}

fn script(house: &TestDataPlane, script: &str) -> Arc<ValidatorProgram> {
    program(house.database.path(), &format!("['/bin/sh', '-c', '''{script}''']"), "timeout = '20s'")
}

/// One partition with so many records, and the attempt at it.
async fn judged(house: &TestDataPlane, records: u32, validator: Arc<ValidatorProgram>) -> Run {
    let here = key("c", 0);
    house.want(std::slice::from_ref(&here)).await;
    let source = Source::new(move |_| Act::Bring(records));
    let work = Work { validator: Some(validator), ..Work::with(source) };
    house.worker(work).await.0.run().await.unwrap();
    house.attempts(&here).await.pop().unwrap()
}

async fn it_sees_every_record_and_accepts(house: TestDataPlane) {
    let says = r#"cat > seen; env | grep ^REDRIVE_ | sort > env; test $(wc -l < seen) = $REDRIVE_RECORDS"#;
    let run = judged(&house, 20_000, script(&house, says)).await;
    assert_eq!(run.error_message, None);
    assert_eq!(house.partition(&key("c", 0)).await.state.status, Status::Success);
    let read = |name: &str| std::fs::read_to_string(house.database.path().join(name)).unwrap();
    let (seen, env) = (read("seen"), read("env"));
    assert_eq!((seen.lines().count(), seen.lines().last()), (20_000, Some("{\"id\":19999}")));
    let manifest = env.lines().find_map(|line| line.strip_prefix("REDRIVE_MANIFEST=")).unwrap();
    assert!(Path::new(manifest).ends_with("_manifest.json") && Path::new(manifest).exists(), "{manifest}");
    assert!(
        env.contains("REDRIVE_CUSTOMER_ID=c\n") && env.contains(&format!("REDRIVE_RUN_ID={}", run.run_id)),
        "{env}"
    );
}

async fn what_it_does_not_accept_is_rejected_as_it_says(house: TestDataPlane) {
    for (says, class, message) in [
        (
            "echo 3 rows are odd >&2; exit 1",
            ErrorClass::Retryable,
            "validate.command: /bin/sh ended with exit code 1: 3 rows are odd",
        ),
        (
            "cat >/dev/null; exit 65",
            ErrorClass::Final,
            "validate.command: /bin/sh ended with exit code 65: it said nothing on stderr",
        ),
        (
            r#"echo "{\"error_class\":\"final\",\"message\":\"the schema has changed\"}" >&2; exit 1"#,
            ErrorClass::Final,
            "validate.command: the schema has changed",
        ),
        (
            r#"echo "{\"error_class\":\"rate_limited\",\"retry_after\":60,\"message\":\"slow\"}" >&2; exit 1"#,
            ErrorClass::Retryable,
            "validate.command: slow",
        ),
    ] {
        let house = TestDataPlane::sqlite().await;
        let run = judged(&house, 5, script(&house, says)).await;
        assert_eq!((run.error_class, run.error_message.as_deref()), (Some(class), Some(message)), "{says}");
        let state = house.partition(&key("c", 0)).await.state;
        assert_eq!((state.status, state.attempt_count), (Status::Failed, 1));
    }
    let says = r#"for n in $(seq 100); do echo "row $n: $TOKEN"; done >&2; exit 1"#;
    let run = judged(&house, 5, script(&house, says)).await;
    let (message, trace) = (run.error_message.unwrap(), run.error_traceback.unwrap());
    assert!(message.contains("row 100: ***") && trace.contains("row 1: ***"), "{message}\n{trace}");
    assert!(!trace.contains(TOKEN) && trace.lines().count() == 100, "{trace}");
}

async fn one_that_hangs_or_does_not_read_holds_up_nothing(house: TestDataPlane) {
    let hangs =
        program(house.database.path(), "['/bin/sh', '-c', 'echo thinking >&2; sleep 1000']", "timeout = '300ms'");
    let run = judged(&house, 5, hangs).await;
    assert_eq!(run.error_class, Some(ErrorClass::Retryable));
    assert_eq!(run.error_message.as_deref(), Some("validate.command: timed out after 0.3 s: thinking"));
    // More than a pipe holds.
    let house = TestDataPlane::sqlite().await;
    assert_eq!(judged(&house, 50_000, script(&house, "exit 0")).await.error_message, None);
}

/// What another rule refuses is not shown to it.
async fn it_is_asked_last(house: TestDataPlane) {
    let here = key("c", 0);
    house.want(std::slice::from_ref(&here)).await;
    let rules: Settings = toml::from_str("min_records = 7").unwrap();
    let validator = Some(script(&house, "touch asked"));
    let work = Work { validator, rules: rules.build().unwrap(), ..Work::with(Source::new(|_| Act::Bring(5))) };
    assert_eq!(house.worker(work).await.0.run().await.unwrap().rejected, 1);
    assert!(!house.database.path().join("asked").exists());
}

/// OP-5
async fn one_that_is_missing_burns_no_attempt_and_asks_nothing(house: TestDataPlane) {
    let here = key("c", 0);
    house.want(std::slice::from_ref(&here)).await;
    let source = Source::new(|_| Act::Bring(5));
    let missing = program(house.database.path(), "['./missing']", "");
    assert!(missing.missing()[0].contains("missing does not exist"), "{:?}", missing.missing());
    let work = Work { validator: Some(missing), ..Work::with(Arc::clone(&source) as _) };
    house.worker(work).await.0.run().await.unwrap();
    let state = house.partition(&here).await.state;
    assert_eq!((state.status, state.attempt_count, source.asked()), (Status::Pending, 0, 0));
    let holds = house.store.view().holds().await.unwrap();
    let why = holds[0].why.as_deref().unwrap();
    assert!(why.starts_with(SOURCE_UNUSABLE) && why.contains("missing does not exist"), "{why}");
}

#[test]
fn settings_of_no_program_are_a_slip() {
    for (settings, part) in [
        ("timeout = '5s'", "timeout: needs command"),
        ("env = { A = 'b' }", "env: needs command"),
        ("command = []", "command: names no program"),
        ("command = ['x']\ntimeout = '0s'", "timeout: 0 is too little"),
        ("command = ['{day}']", "command[0]: {day} is no placeholder"),
    ] {
        let settings: Settings = toml::from_str(settings).unwrap();
        let told = settings.program(&Surroundings::default()).unwrap_err().to_string();
        assert!(told.starts_with(part), "{told}");
    }
    assert!(Settings::default().program(&Surroundings::default()).unwrap().is_none());
}

redrive_fixture::on_both_databases!(
    it_sees_every_record_and_accepts,
    what_it_does_not_accept_is_rejected_as_it_says,
    one_that_hangs_or_does_not_read_holds_up_nothing,
    it_is_asked_last,
    one_that_is_missing_burns_no_attempt_and_asks_nothing,
);
