//! Storage that fails, uploads that were cut off, cancellation.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_data::ingest::archive::{Error, Limits, Member, Progress, Reason, Visitor, read};

use crate::corpus::archives;
use crate::pack::{CONF, bz2, tar_of, xz, zip_of, zst};
use crate::{Files, files, read_with};

/// Storage that fails when a byte is asked for, or at every seek.
struct Failing<'b> {
    bytes: Cursor<&'b [u8]>,
    fails_at: u64,
    seeks_fail: bool,
}

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.fails_at.saturating_sub(self.bytes.position());
        if left == 0 {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the connection was reset"));
        }
        let wanted = usize::try_from(left).unwrap().min(buffer.len());
        self.bytes.read(&mut buffer[..wanted])
    }
}

impl Seek for Failing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if self.seeks_fail { Err(io::ErrorKind::TimedOut.into()) } else { self.bytes.seek(to) }
    }
}

/// Every packing of a small bundle.
fn packings() -> Vec<Vec<u8>> {
    let inner = tar_of(&[("i/x.conf".to_owned(), CONF.to_vec())]);
    let some = [("a/x.conf".to_owned(), CONF.repeat(200)), ("a/inner.zst".to_owned(), zst(&inner))];
    let tar = tar_of(&some);
    vec![crate::pack::gz(&tar), bz2(&tar), xz(&tar), zst(&tar), zip_of(&some), tar]
}

#[test]
fn storage_that_fails_is_never_taken_for_a_bad_archive() {
    for bytes in packings() {
        let len = u64::try_from(bytes.len()).unwrap();
        for fails_at in (0..len).step_by(1 + bytes.len() / 97) {
            let mut source = Failing { bytes: Cursor::new(&bytes), fails_at, seeks_fail: false };
            let mut found = Files::default();
            let done = read(&mut source, "x", &Limits::default(), &AtomicBool::new(false), &mut found);
            match done {
                Err(Error::Storage(error)) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
                other => panic!("failed at {fails_at} of {len}: {other:?}"),
            }
        }
        let mut source = Failing { bytes: Cursor::new(&bytes), fails_at: len, seeks_fail: true };
        let done = read(&mut source, "x", &Limits::default(), &AtomicBool::new(false), &mut Files::default());
        assert!(matches!(done, Err(Error::Storage(_))), "{done:?}");
    }
}

#[test]
fn an_upload_that_was_cut_off_is_never_taken_for_a_whole_one() {
    let mut all = packings();
    all.extend(archives().into_iter().filter(|(told, _)| told["archive"] != "props.conf").map(|(_, bytes)| bytes));
    for bytes in all {
        let whole = files(&bytes, "x");
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 61).chain([bytes.len() - 1]) {
            let (done, found) = read_with(&bytes[..len], "x", &Limits::default());
            match done {
                Ok(_) => {
                    // Only the padding behind the end of a tar archive may be missing.
                    assert!(found.files == whole, "cut off at {len} of {}", bytes.len());
                    assert!(bytes[len..].iter().all(|byte| *byte == 0), "cut off at {len} of {}", bytes.len());
                }
                Err(Error::Refused(refusal)) => assert!(
                    matches!(refusal.reason, Reason::MalformedArchive | Reason::InvalidFormat),
                    "cut off at {len}: {refusal}"
                ),
                Err(other) => panic!("cut off at {len}: {other:?}"),
            }
        }
    }
}

/// Stops after some files, or sets a flag and goes on.
struct Ending<'f> {
    files: u32,
    stop_after: Option<u32>,
    flag: Option<&'f AtomicBool>,
    progress: Vec<Progress>,
}

impl Visitor for Ending<'_> {
    fn file(&mut self, _: Member<'_>) -> ControlFlow<()> {
        self.files += 1;
        if let Some(flag) = self.flag {
            flag.store(true, Ordering::Relaxed);
        }
        if self.stop_after == Some(self.files) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn progress(&mut self, progress: Progress) {
        self.progress.push(progress);
    }
}

#[test]
fn the_visitor_and_the_flag_each_end_the_reading_at_once() {
    let some: Vec<_> = (0..9).map(|number| (format!("{number}.conf"), CONF.to_vec())).collect();
    let tar = tar_of(&some);
    for bytes in [crate::pack::gz(&tar), zip_of(&some), tar] {
        let flag = AtomicBool::new(false);
        let mut visitor = Ending { files: 0, stop_after: Some(3), flag: None, progress: Vec::new() };
        let done = read(&mut Cursor::new(&bytes), "x", &Limits::default(), &flag, &mut visitor);
        assert!(matches!(done, Err(Error::Stopped)), "{done:?}");
        assert_eq!(visitor.files, 3);

        let mut visitor = Ending { files: 0, stop_after: None, flag: Some(&flag), progress: Vec::new() };
        let done = read(&mut Cursor::new(&bytes), "x", &Limits::default(), &flag, &mut visitor);
        assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
        assert_eq!(visitor.files, 1);
    }
}

#[test]
fn a_long_member_that_is_passed_over_tells_progress_and_can_be_cancelled() {
    let noise: Vec<u8> = (0..20u32 << 20).map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let some = [("big.bin".to_owned(), noise), ("x.conf".to_owned(), CONF.to_vec())];
    let tar = tar_of(&some);
    let flag = AtomicBool::new(false);
    let mut visitor = Ending { files: 0, stop_after: None, flag: None, progress: Vec::new() };
    read(&mut Cursor::new(&tar), "x", &Limits::default(), &flag, &mut visitor).unwrap();
    assert!(visitor.progress.len() >= 20, "{}", visitor.progress.len());
    assert!(visitor.progress.is_sorted_by_key(|progress| progress.bytes_unpacked));

    flag.store(true, Ordering::Relaxed);
    let done = read(&mut Cursor::new(&tar), "x", &Limits::default(), &flag, &mut visitor);
    assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
}
