//! The process that is traced: this test binary again, asked by its environment to write.

use std::path::{Path, PathBuf};

use redrive_core::key::PartitionKey;
use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};

use crate::lab::{attempt, later, long_line};

pub const TEST: &str = "power::writer::writes_when_asked";
pub const SCENE: &str = "REDRIVE_POWER_SCENE";
pub const FOLDER: &str = "REDRIVE_POWER_FOLDER";

#[derive(Clone, Copy)]
pub enum Scene {
    OneAfterAnother,
    ManyParts,
    AtOnce,
    MadeAgain,
    FoundUnsynced,
}

impl Scene {
    const ALL: [Self; 5] = [Self::OneAfterAnother, Self::ManyParts, Self::AtOnce, Self::MadeAgain, Self::FoundUnsynced];

    pub fn word(self) -> &'static str {
        match self {
            Self::OneAfterAnother => "one-after-another",
            Self::ManyParts => "many-parts",
            Self::AtOnce => "at-once",
            Self::MadeAgain => "made-again",
            Self::FoundUnsynced => "found-unsynced",
        }
    }

    /// How many runs are acknowledged.
    pub fn runs(self) -> usize {
        match self {
            Self::OneAfterAnother => 5,
            Self::ManyParts => 2,
            Self::AtOnce => 5,
            Self::MadeAgain => 3,
            Self::FoundUnsynced => 1,
        }
    }

    /// Whether files that the sink did not write are there.
    pub fn has_strange_files(self) -> bool {
        match self {
            Self::FoundUnsynced => true,
            Self::OneAfterAnother | Self::ManyParts | Self::AtOnce | Self::MadeAgain => false,
        }
    }
}

/// Two levels below the folder, so that the sink has to make more than one directory for itself.
pub fn sink_in(folder: &Path) -> RawUrl {
    RawUrl::File(folder.join("lake/raw"))
}

/// The runs of all scenes: 0 and 1 are of two days, 1 and 2 of one partition; later ones have other customers.
pub fn header(run: usize) -> RunHeader {
    let (customer, day) = match run {
        0 => (0, 1),
        1 | 2 => (0, 2),
        other => (other / 4, other),
    };
    let day = format!("2026-01-{:02}", day + 1);
    attempt(
        &PartitionKey::new("ads", &customer.to_string(), "campaign_daily", &day).unwrap(),
        u32::try_from(run).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_when_asked() {
    let (Some(scene), Some(folder)) = (std::env::var_os(SCENE), std::env::var_os(FOLDER)) else { return };
    let scene = *Scene::ALL.iter().find(|known| scene == known.word()).unwrap();
    let folder = PathBuf::from(folder);
    if let Scene::FoundUnsynced = scene {
        leave_unsynced(&folder).await;
    }
    println!("opening");
    let options = RawOptions { part_bytes: 1, ..RawOptions::default() };
    let sink = RawSink::open(&sink_in(&folder), &options).await.unwrap();
    println!("opened");
    match scene {
        Scene::OneAfterAnother => {
            for run in 0..4 {
                write(&sink, run, &["{\"a\":1}", "{\"a\":2}"]).await;
            }
            let outcome = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "no luck".to_owned() };
            sink.begin(header(4)).finish(outcome, later()).await.unwrap();
            println!("acknowledged 4");
        }
        Scene::ManyParts => many_parts(&sink).await,
        Scene::AtOnce => {
            let writes = (0..scene.runs()).map(|run| {
                let sink = sink.clone();
                tokio::spawn(async move { write(&sink, run, &["{\"a\":1}"]).await })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await.unwrap();
            }
        }
        Scene::MadeAgain => {
            write(&sink, 0, &["{}"]).await;
            println!("removed 0");
            make_again(&folder.join("lake/raw/source=ads"), "customer_id=0/query_name=campaign_daily");
            write(&sink, 1, &["{}"]).await;
            println!("removed 1");
            make_again(&folder.join("lake"), "raw");
            write(&sink, 2, &["{}"]).await;
        }
        Scene::FoundUnsynced => write(&sink, 0, &["{}"]).await,
    }
}

async fn write(sink: &RawSink, run: usize, lines: &[&str]) {
    crate::lab::write(sink, header(run), lines).await.unwrap();
    println!("acknowledged {run}");
}

/// A run with a rest in memory when it is finished, and one without.
async fn many_parts(sink: &RawSink) {
    for (run, lines) in [(0, vec![1 << 20, 1 << 20, 10]), (1, vec![1 << 20, 1 << 20])] {
        let mut writer = sink.begin(header(run));
        for (n, length) in lines.into_iter().enumerate() {
            writer.write_line(long_line(n, length).as_bytes()).await.unwrap();
        }
        writer.finish(RunOutcome::Complete, later()).await.unwrap();
        println!("acknowledged {run}");
    }
}

/// Removes a directory, and makes it again with `below`, as another process that has not synced it.
fn make_again(directory: &Path, below: &str) {
    std::fs::remove_dir_all(directory).unwrap();
    std::fs::create_dir_all(directory.join(below)).unwrap();
}

/// Leaves the part of a run as another program that does not sync.
async fn leave_unsynced(folder: &Path) {
    let elsewhere = tempfile::tempdir().unwrap();
    let options = RawOptions::default();
    let sink = RawSink::open(&sink_in(elsewhere.path()), &options).await.unwrap();
    let manifest = crate::lab::write(&sink, header(0), &["{}"]).await.unwrap();
    let directory = PathBuf::from(sink.view().directory(&manifest.key, manifest.run_id));
    let copy = folder.join(directory.strip_prefix(elsewhere.path()).unwrap());
    std::fs::create_dir_all(&copy).unwrap();
    for part in &manifest.parts {
        std::fs::write(copy.join(&part.name), std::fs::read(directory.join(&part.name)).unwrap()).unwrap();
    }
}
