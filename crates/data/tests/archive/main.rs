//! The archive reader: the corpus, every refusal, every limit, storage that fails, bombs, and random changes.
//!
//! A minute of random changes: `REDRIVE_FUZZ_SECONDS=60 cargo test -p redrive-data --test archive changed -- --nocapture`
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod corpus;
mod faults;
mod fuzz;
mod limits;
mod links;
mod memory;
mod messy;
#[path = "../../../conf/tests/support/mutate.rs"]
mod mutate;
mod pack;
mod refusals;

use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_data::ingest::archive::{Error, Limits, Member, Reason, Refusal, Summary, Visitor, read};

/// Keeps every file.
#[derive(Debug, Default)]
pub struct Files {
    pub files: Vec<(String, Vec<u8>)>,
    pub broken: Vec<(String, String)>,
}

impl Visitor for Files {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        self.files.push((member.path.to_owned(), member.bytes.to_vec()));
        ControlFlow::Continue(())
    }

    fn broken_link(&mut self, path: &str, _: &str, why: &'static str) -> ControlFlow<()> {
        self.broken.push((path.to_owned(), why.to_owned()));
        ControlFlow::Continue(())
    }
}

pub fn read_with(bytes: &[u8], name: &str, limits: &Limits) -> (Result<Summary, Error>, Files) {
    let mut files = Files::default();
    let done = read(&mut Cursor::new(bytes), name, limits, &AtomicBool::new(false), &mut files);
    (done, files)
}

/// Reads an upload that must be whole.
pub fn files(bytes: &[u8], name: &str) -> Vec<(String, Vec<u8>)> {
    let (done, files) = read_with(bytes, name, &Limits::default());
    done.unwrap();
    files.files
}

pub fn refusal_with(bytes: &[u8], name: &str, limits: &Limits) -> Refusal {
    match read_with(bytes, name, limits).0 {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Reads an upload that must be refused.
pub fn refusal(bytes: &[u8], name: &str) -> Refusal {
    refusal_with(bytes, name, &Limits::default())
}

#[track_caller]
pub fn assert_refused(bytes: &[u8], reason: Reason, member: Option<&str>, words: &str) {
    let refusal = refusal(bytes, "upload.bin");
    assert_eq!(refusal.reason, reason, "{refusal}");
    assert_eq!(refusal.member.as_deref(), member, "{refusal}");
    assert!(refusal.to_string().contains(words), "{refusal}");
}
