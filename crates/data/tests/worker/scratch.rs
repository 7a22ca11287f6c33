//! The worker's temporary directory is its own trouble, and no attempt of a partition: the source that needs it is held.

use std::path::Path;

use redrive_core::partition::Status;
use redrive_data::ScratchError;
use redrive_data::validate::{Rules, Scratch, Settings};
use redrive_fixture::Mount;
use tempfile::TempDir;

use crate::house::{TestDataPlane, Work, key};
use crate::source::{Act, Source};

/// Rules whose keys are sorted in that directory, however few they are.
fn sorted_in(directory: &Path) -> Rules {
    let settings = Settings { unique: vec!["id".to_owned()], ..Settings::default() };
    settings.build().unwrap().with_scratch(Scratch { memory: 1, dir: directory.to_owned(), ..Scratch::default() })
}

async fn is_given_back(house: &TestDataPlane, work: Work, directory: &Path) {
    house.want(&[key("c", 0)]).await;
    let counts = house.worker(work).await.0.run().await.unwrap();
    assert_eq!((counts.claimed, counts.released), (1, 1), "{counts:?}");
    let expected = format!("cannot use the temporary directory {}: ", directory.display());
    let held = house.store.view().holds().await.unwrap().remove(0);
    assert!(held.why.as_deref().is_some_and(|why| why.contains(&expected)), "{held:?}");
    let partition = house.partition(&key("c", 0)).await;
    assert_eq!((partition.state.status, partition.state.attempt_count), (Status::Pending, 0));
    assert_eq!(partition.control.active, None, "it was given back");
    let why = house.attempts(&key("c", 0)).await.remove(0).error_message.unwrap();
    assert!(why.contains(&expected), "{why}");
}

/// Nobody can make a file in `/proc`, not even root.
async fn a_scratch_directory_that_cannot_be_written_burns_no_attempt(house: TestDataPlane) {
    let directory = Path::new("/proc");
    let work = Work { rules: sorted_in(directory), ..Work::with(Source::new(|_| Act::Bring(9))) };
    is_given_back(&house, work, directory).await;
    house.store.data().look_again(&["src".parse().unwrap()]).await.unwrap();
    let elsewhere = TempDir::new().unwrap();
    let work = Work { rules: sorted_in(elsewhere.path()), ..Work::with(Source::new(|_| Act::Bring(9))) };
    assert_eq!(house.worker(work).await.0.run().await.unwrap().accepted, 1);
    assert_eq!(house.partition(&key("c", 0)).await.state.attempt_count, 1);
}

async fn a_full_scratch_disk_burns_no_attempt(house: TestDataPlane) {
    let Some(disk) = Mount::of_size("4k") else { return };
    std::fs::write(disk.path().join("full"), [0; 4096]).unwrap();
    let work = Work { rules: sorted_in(disk.path()), ..Work::with(Source::new(|_| Act::Bring(9))) };
    is_given_back(&house, work, disk.path()).await;
}

async fn an_extractor_without_scratch_space_burns_no_attempt(house: TestDataPlane) {
    let directory = Path::new("/nowhere");
    let source = Source::new(|_| {
        Act::NoScratch(ScratchError { directory: "/nowhere".into(), source: std::io::ErrorKind::NotFound.into() })
    });
    is_given_back(&house, Work::with(source), directory).await;
}

redrive_fixture::on_both_databases!(
    current_thread:
    a_scratch_directory_that_cannot_be_written_burns_no_attempt,
    a_full_scratch_disk_burns_no_attempt,
    an_extractor_without_scratch_space_burns_no_attempt,
);
