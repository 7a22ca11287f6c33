//! Nothing that a program started is left behind, whatever happens.
//!
//! Each test holds a FIFO's writing end in every process that it starts; the reader sees the end of file when the last
//! of them is gone.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use redrive_core::failure::ErrorClass;
use redrive_data::extract::Error;
use redrive_store::raw::RawOptions;
use tokio::sync::oneshot;

use crate::lab::{Lab, build, shell, soon};

/// Told when a script has said that it is up, and again when all who held the FIFO are gone.
struct Witness {
    fifo: PathBuf,
    up: oneshot::Receiver<()>,
    gone: oneshot::Receiver<()>,
}

impl Witness {
    fn new(dir: &Path) -> Self {
        let fifo = dir.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let (is_up, up) = oneshot::channel();
        let (are_gone, gone) = oneshot::channel();
        let path = fifo.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(File::open(path).unwrap());
            reader.read_line(&mut String::new()).unwrap();
            let _ = is_up.send(());
            reader.read_to_end(&mut Vec::new()).unwrap();
            let _ = are_gone.send(());
        });
        Self { fifo, up, gone }
    }

    /// A script whose processes all hold the FIFO.
    fn held(&self, script: &str) -> String {
        shell(&format!("exec 9>\"{}\"\n{script}", self.fifo.display()))
    }
}

/// Starts the script, drops the extraction once it is up, and waits until all of it is gone.
async fn dropped_while_running(script: &str) {
    let lab = Lab::new().await;
    let witness = Witness::new(lab.path());
    let extractor = build(&witness.held(script)).unwrap();
    let mut records = lab.records();
    tokio::select! {
        ended = extractor.extract(&lab.job, &mut records) => panic!("it ended: {ended:?}"),
        up = soon("up", witness.up) => up.unwrap(),
    }
    soon("all processes gone", witness.gone).await.unwrap();
}

#[tokio::test]
async fn dropping_the_extraction_ends_the_program_and_its_children() {
    dropped_while_running("sleep 1000 & (sleep 1000 | sleep 1000) & echo up >&9; wait").await;
}

#[tokio::test]
async fn processes_that_ignore_the_request_to_end_are_ended() {
    dropped_while_running("trap \"\" TERM; sleep 1000 & sh -c \"sleep 1000 & wait\" & echo up >&9; wait").await;
}

/// Drops an extraction once its program is up; the script is given a file to make when it is asked to end, and must.
async fn asked_to_end(script: impl FnOnce(&str) -> String) {
    let lab = Lab::new().await;
    let witness = Witness::new(lab.path());
    let asked = lab.path().join("asked");
    let extractor = build(&witness.held(&script(&asked.display().to_string()))).unwrap();
    let mut records = lab.records();
    tokio::select! {
        ended = extractor.extract(&lab.job, &mut records) => panic!("it ended: {ended:?}"),
        up = soon("up", witness.up) => up.unwrap(),
    }
    soon("the program is gone", lab.job.children.ended()).await;
    soon("all processes gone", witness.gone).await.unwrap();
    assert!(asked.exists());
}

/// What it says first would end it if nobody listened any more.
#[tokio::test]
async fn a_program_is_asked_to_end_and_heard_until_it_has() {
    asked_to_end(|asked| {
        format!("trap \"echo ending >&2; echo asked >{asked}; exit 0\" TERM\necho up >&9; while :; do sleep 0.01; done")
    })
    .await;
}

/// A shell is gone at once; what it has started, and which was asked to end as well, has its time all the same.
#[tokio::test]
async fn what_is_left_of_the_group_has_time_to_end_although_its_leader_is_gone() {
    asked_to_end(|asked| {
        let trap = format!("trap \"sleep 0.3; echo asked >{asked}; exit 0\" TERM");
        format!("({trap}; echo up >&9; while :; do sleep 0.01; done) & wait")
    })
    .await;
}

/// Told by nobody when it closes its stderr, it is waited for all the same.
#[tokio::test]
async fn a_program_without_stderr_has_time_to_end_too() {
    asked_to_end(|asked| {
        let trap = format!("trap \"sleep 0.3; echo asked >{asked}; exit 0\" TERM");
        format!("exec 2>&-; {trap}; echo up >&9; while :; do sleep 0.01; done")
    })
    .await;
}

#[tokio::test]
async fn dropping_also_ends_a_program_that_floods() {
    dropped_while_running("echo up >&9; exec yes \"{}\"").await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_ended_with_it() {
    let lab = Lab::new().await;
    let witness = Witness::new(lab.path());
    let left = lab.extract(&witness.held("sleep 1000 >/dev/null 2>&1 & echo up >&9; echo \"{}\"")).await;
    left.result.as_ref().unwrap();
    soon("all processes gone", witness.gone).await.unwrap();
}

#[tokio::test]
async fn a_process_that_is_left_behind_with_the_output_open_makes_it_doubtful_and_is_not_waited_for_long() {
    let lab = Lab::new().await;
    let witness = Witness::new(lab.path());
    let settings = witness.held("sleep 1000 & echo up >&9; echo \"{}\"");
    let left = soon("the end", lab.extract(&settings)).await;
    assert_eq!(left.failure().class, ErrorClass::Retryable);
    assert!(left.failure().message.contains("still held its output"), "{:?}", left.result);
    soon("all processes gone", witness.gone).await.unwrap();
}

#[tokio::test]
async fn a_process_that_is_left_behind_and_still_writes_makes_the_output_doubtful() {
    let lab = Lab::new().await;
    let witness = Witness::new(lab.path());
    let settings = witness.held("(while :; do echo \"{}\"; sleep 0.1; done) & echo up >&9; exit 0");
    let left = soon("the end", lab.extract(&settings)).await;
    assert_eq!(left.failure().class, ErrorClass::Retryable);
    assert!(left.failure().message.contains("still held its output"), "{:?}", left.result);
    soon("all processes gone", witness.gone).await.unwrap();
}

#[tokio::test]
async fn a_record_that_is_cut_in_the_middle_is_no_success() {
    let settings = shell("sleep 1000 & printf \"{\\\"a\\\":\"; exit 0");
    let left = soon("the end", Lab::new().await.extract(&settings)).await;
    assert!(left.failure().message.contains("still held its output"), "{:?}", left.result);
}

#[tokio::test]
async fn what_is_still_written_just_after_the_exit_counts() {
    let left = Lab::new().await.sh("(sleep 0.3; echo \"{\\\"b\\\":2}\") & echo \"{\\\"a\\\":1}\"").await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{\"a\":1}", "{\"b\":2}"]);
}

#[tokio::test]
async fn a_daemon_that_holds_stderr_is_not_waited_for() {
    let lab = Lab::new().await;
    let (up, end) = (lab.path().join("up"), lab.path().join("end"));
    assert!(Command::new("mkfifo").args([&up, &end]).status().unwrap().success());
    // It has left the group when it says so, and then nothing but the other FIFO ends it.
    let (up, ends) = (up.display(), end.display());
    let daemon = format!("setsid sh -c 'echo up >\"{up}\"; exec cat \"{ends}\"' >/dev/null");
    let settings = shell(&format!("{daemon} & read word <\"{up}\"; echo \"{{}}\"; echo why >&2; exit 1"));
    let left = soon("the end", lab.extract(&settings)).await;
    assert!(left.failure().message.ends_with("exit code 1: why"), "{:?}", left.result);
    soon("the daemon's end", tokio::task::spawn_blocking(move || std::fs::write(end, ""))).await.unwrap().unwrap();
}

#[tokio::test]
async fn when_the_sink_fails_its_error_wins_and_the_program_is_ended() {
    let lab = Lab::with(RawOptions { part_bytes: 1, ..RawOptions::default() }).await;
    std::fs::write(lab.path().join("raw/source=ads"), "in the way").unwrap();
    let witness = Witness::new(lab.path());
    let extractor = build(&witness.held("echo up >&9; yes \"{}\"; exit 78")).unwrap();
    let mut records = lab.records();
    let result = soon("the end", extractor.extract(&lab.job, &mut records)).await;
    assert!(matches!(result, Err(Error::Sink(_))), "{result:?}");
    soon("all processes gone", witness.gone).await.unwrap();
}

#[tokio::test]
async fn nobody_waits_for_a_program_that_closed_its_output_but_its_exit() {
    let left = Lab::new().await.sh("echo \"{}\"; exec >&-; sleep 0.3; exit 65").await;
    assert_eq!(left.failure().class, ErrorClass::Final);
}
