//! Starting programs: what they are told, and why they cannot be started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use redrive_core::failure::ErrorClass;
use redrive_data::extract::Failure;

use crate::lab::{Lab, SECRET, build, shell};

async fn cannot_start(settings: &str) -> Failure {
    let failure = Lab::new().await.extract(settings).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Final, "{failure}");
    failure
}

fn program(path: &Path, content: &[u8], mode: u32) -> String {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    format!("kind = 'command'\ncommand = ['{}']", path.display())
}

#[tokio::test]
async fn a_program_that_is_missing_is_named_with_where_it_was_looked_for() {
    let failure = cannot_start("kind = 'command'\ncommand = ['no-such-program-here', 'x']").await;
    assert_eq!(failure.message, "cannot find no-such-program-here in the PATH; install it or write its whole path");
    let failure = cannot_start("kind = 'command'\ncommand = ['/no/such/program']").await;
    assert_eq!(failure.message, "/no/such/program does not exist; correct command");
}

#[tokio::test]
async fn a_file_that_is_no_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let failure = cannot_start(&program(&path, b"#!/bin/sh\n", 0o600)).await;
    assert!(failure.message.contains("may not be run") && failure.message.contains("PATH"), "{failure}");
    let failure = cannot_start(&program(&path, b"#!/no/such/interpreter\n", 0o700)).await;
    assert!(failure.message.ends_with("the program that its first line names is missing; install that"), "{failure}");
    let failure = cannot_start(&program(&path, b"\x7fELF and then nothing", 0o700)).await;
    assert!(failure.message.contains("is no program for this machine"), "{failure}");
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named() {
    let failure = cannot_start(&format!("{}directory = '/no/such/place'", shell("true"))).await;
    assert_eq!(failure.message, "directory /no/such/place does not exist; create it or correct it");
}

#[tokio::test]
async fn an_argument_that_no_program_can_be_given_is_refused() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("a\0b".to_owned());
    let failure = lab.extract("kind = 'command'\ncommand = ['echo', '{query}']").await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Final);
    assert!(failure.message.contains("cannot run echo with these arguments"), "{failure}");
}

#[tokio::test]
async fn a_program_runs_in_its_directory() {
    let lab = Lab::new().await;
    let here = lab.path().canonicalize().unwrap();
    program(&here.join("p"), b"#!/bin/sh\npwd\n", 0o700);
    let settings = format!("kind = 'command'\ncommand = ['./p']\ndirectory = '{}'", here.display());
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), [here.to_str().unwrap()]);
}

#[tokio::test]
async fn a_program_is_told_what_to_bring() {
    let mut lab = Lab::new().await;
    let script = r#"echo "$REDRIVE_RUN_ID"; echo "$REDRIVE_SOURCE|$REDRIVE_CUSTOMER_ID|$REDRIVE_QUERY_NAME"
        echo "$REDRIVE_LOGICAL_DATE|${REDRIVE_QUERY-unset}|$REDRIVE_ATTEMPT|$GREETING|${PATH:+inherited}"; echo "$1""#;
    let settings = format!(
        "kind = 'command'\ncommand = ['sh', '-c', '''{script}''', 'sh', '{{logical_date}}/{{customer_id}} {{query}}']
        env = {{ GREETING = 'hello {{source}}' }}"
    );
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    let expected = [
        "019a0000-0000-7000-8000-000000000001",
        "ads|111-222|daily",
        "2026-01-31||3|hello ads|inherited",
        "2026-01-31/111-222 ",
    ];
    assert_eq!(left.texts(), expected);
    lab.job.run_id = "019a0000-0000-7000-8000-000000000009".parse().unwrap();
    lab.job.query = Some("SELECT $(rm) `x` 'y'".to_owned());
    let left = lab.extract(&settings).await;
    assert_eq!(
        left.texts()[2..],
        ["2026-01-31|SELECT $(rm) `x` 'y'|3|hello ads|inherited", "2026-01-31/111-222 SELECT $(rm) `x` 'y'"]
    );
}

#[tokio::test]
async fn standard_input_is_empty() {
    let left = Lab::new().await.sh("cat; echo \"{}\"").await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{}"]);
}

#[tokio::test]
async fn a_secret_reaches_the_program_and_nobody_else() {
    let lab = Lab::new().await;
    let file = lab.path().join("secret");
    fs::write(&file, "fr0m-a-file\n").unwrap();
    let script = r#"echo "$A $B"; echo "cannot log in with $A and $B" >&2; exit 77"#;
    let variables = format!("env = {{ A = {{ env = 'API_TOKEN' }}, B = {{ file = '{}' }} }}", file.display());
    let extractor = build(&format!("{}{variables}", shell(script))).unwrap();
    let left = lab.run(&*extractor).await;
    assert_eq!(left.texts(), [format!("{SECRET} fr0m-a-file")]);
    assert_eq!(left.failure().message, "/bin/sh ended with exit code 77: cannot log in with *** and ***");
    assert_eq!(extractor.secrets(&lab.job), [SECRET, "fr0m-a-file"]);
    assert!(!format!("{extractor:?}").contains(SECRET));
}

#[test]
fn settings_that_cannot_work_are_refused_when_they_are_read() {
    let wrong = |settings: &str| build(&format!("kind = 'command'\n{settings}")).unwrap_err();
    assert!(wrong("command = []").starts_with("command: names no program"));
    assert!(wrong("command = ['']").starts_with("command: names no program"));
    assert!(wrong("command = ['x', '{logical_day}']").starts_with("command[1]: {logical_day} is no placeholder"));
    assert!(wrong("command = ['x']\nenv = { 'A=B' = 'x' }").contains("env.\"A=B\": cannot be the name of a variable"));
    assert!(
        wrong("command = ['x']\nenv = { A = { vault = 'x' } }")
            .contains("unknown field `vault`, expected one of `env`, `file`")
    );
    assert!(wrong("command = ['x']\nenv = { A = 7 }").contains("expected a text, { env = \"NAME\" }"));
    assert!(wrong("command = ['x']\nshell = true").contains("unknown field `shell`"));
    assert!(wrong("command = ['x']\ntimeout = '5'").contains("is not a duration"));
}
