//! The power fails at every moment, and whatever was not synced is lost: what was acknowledged is there, and what was
//! not is there whole or not at all.
//!
//! A real writer runs under strace; from its system calls a model of the disk says what may be left, and the sink's own
//! reader looks at it.

mod disk;
mod trace;
mod writer;

use std::collections::{BTreeSet, HashSet};
use std::process::{Command, Stdio};

use redrive_store::raw::{RawView, S3Options};
use tempfile::TempDir;

use disk::{Disk, Left};
use trace::{Call, Moment, Trace};
use writer::{Scene, header};

/// Runs a scene in a process of its own. None, with the reason printed, where processes cannot be traced.
fn traced(scene: Scene) -> Option<(TempDir, Trace)> {
    let folder = tempfile::tempdir().unwrap();
    // As the kernel names it.
    let top = folder.path().canonicalize().unwrap();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq", "-s", "4000000", "-e", trace::CALLS, "-e", "signal=none", "-o"]);
    command.arg(output.path()).arg(std::env::current_exe().unwrap());
    command.args(["--exact", writer::TEST, "--nocapture", "--test-threads=1"]);
    command.env(writer::SCENE, scene.word()).env(writer::FOLDER, &top).stdin(Stdio::null());
    let ended = match command.output() {
        Ok(ended) => ended,
        Err(error) => {
            redrive_fixture::skip(&format!("cannot start strace: {error}"));
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&ended.stderr);
    if errors.contains("PTRACE_TRACEME") || errors.contains("Operation not permitted") {
        redrive_fixture::skip(&format!("strace may not trace: {errors}"));
        return None;
    }
    assert!(ended.status.success(), "{}\n{errors}", String::from_utf8_lossy(&ended.stdout));
    let text = std::fs::read_to_string(output.path()).unwrap();
    Some((folder, Trace::parse(&text, &top)))
}

/// What the writer has said so far.
#[derive(Default, Clone, PartialEq, Eq, Hash)]
struct Known {
    acknowledged: BTreeSet<usize>,
    /// By the scene itself, so nothing is promised of them any more.
    removed: BTreeSet<usize>,
}

impl Known {
    fn hear(&mut self, call: &Call) {
        let Call::Said(line) = call else { return };
        match line.split_once(' ') {
            Some(("acknowledged", run)) => assert!(self.acknowledged.insert(run.parse().unwrap())),
            Some(("removed", run)) => assert!(self.removed.insert(run.parse().unwrap())),
            _ => {}
        }
    }
}

/// Lets the power fail at every moment of a scene.
async fn survive(scene: Scene) {
    let Some((folder, trace)) = traced(scene) else { return };
    let mut disk = Disk::new(&folder.path().canonicalize().unwrap());
    let (mut begun, mut known, mut seen) = (vec![0; trace.calls.len()], Known::default(), HashSet::new());
    for moment in &trace.moments {
        match *moment {
            Moment::Begin(call) => {
                begun[call] = disk.begin(&trace.calls[call]);
                known.hear(&trace.calls[call]);
            }
            Moment::End(call) => disk.end(&trace.calls[call], begun[call]),
        }
        if !scene.has_strange_files() {
            assert!(disk.torn().is_empty(), "half an object under its final name: {:?}", disk.torn());
        }
        for left in disk.outcomes() {
            if seen.insert((known.clone(), disk.describe(&left))) {
                look(&disk, &left, scene, &known).await;
            }
        }
    }
    assert_eq!(known.acknowledged.len(), scene.runs(), "the scene was played to its end");
    assert!(seen.len() > 8 * scene.runs(), "only {} different disks", seen.len());
}

/// Looks at what is left with the sink's own reader.
async fn look(disk: &Disk, left: &Left, scene: Scene, known: &Known) {
    let folder = tempfile::tempdir().unwrap();
    disk.restore(left, folder.path());
    let view = RawView::open(&writer::sink_in(folder.path()), &S3Options::default()).await.unwrap();
    for run in (0..scene.runs()).filter(|run| !known.removed.contains(run)) {
        let header = header(run);
        let told = || format!("run {run} when this is left:\n{}", disk.describe(left));
        match view.manifest(&header.key, header.run_id).await.unwrap_or_else(|error| panic!("{error}: {}", told())) {
            Some(manifest) => view.verify(&manifest).await.unwrap_or_else(|error| panic!("{error}: {}", told())),
            None => assert!(!known.acknowledged.contains(&run), "lost though acknowledged: {}", told()),
        }
    }
}

#[tokio::test]
async fn runs_of_new_and_known_partitions_outlast_the_power() {
    survive(Scene::OneAfterAnother).await;
}

#[tokio::test]
async fn a_run_of_many_parts_outlasts_the_power() {
    survive(Scene::ManyParts).await;
}

#[tokio::test]
async fn runs_that_are_written_at_once_outlast_the_power() {
    survive(Scene::AtOnce).await;
}

#[tokio::test]
async fn directories_that_others_made_again_are_synced_again() {
    survive(Scene::MadeAgain).await;
}

#[tokio::test]
async fn objects_that_others_left_unsynced_are_synced() {
    survive(Scene::FoundUnsynced).await;
}

/// The calls between two lines of the writer.
fn between<'t>(trace: &'t Trace, from: &str, to: &str) -> &'t [Call] {
    let at = |line: &str| {
        let said = |call: &Call| matches!(call, Call::Said(said) if said == line);
        trace.calls.iter().position(said).unwrap_or_else(|| panic!("{line} was not said"))
    };
    &trace.calls[at(from) + 1..at(to)]
}

fn count(calls: &[Call], kind: fn(&Call) -> bool) -> usize {
    calls.iter().filter(|call| kind(call)).count()
}

#[test]
fn an_attempt_costs_five_syncs_and_five_opens() {
    let Some((_folder, trace)) = traced(Scene::OneAfterAnother) else { return };
    let is_sync = |call: &Call| matches!(call, Call::Sync(_));
    let is_open = |call: &Call| matches!(call, Call::Open(_) | Call::Create(_));
    // The second run is of another day of a query that is known by then, the third of the same day.
    for (from, to, syncs) in [("acknowledged 0", "acknowledged 1", 5), ("acknowledged 1", "acknowledged 2", 4)] {
        let calls = between(&trace, from, to);
        assert_eq!((count(calls, is_sync), calls.len() <= 24), (syncs, true), "{calls:#?}");
        assert!(count(calls, is_open) <= 5, "{calls:#?}");
    }
    let opening = between(&trace, "opening", "opened");
    assert!(!opening.is_empty() && count(opening, |call| matches!(call, Call::List(_))) == 0, "{opening:#?}");
}
