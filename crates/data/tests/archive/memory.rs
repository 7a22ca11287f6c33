//! The memory of the worst uploads, the parsing of their files counted.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::Document;
use redrive_data::ingest::archive::{Limits, Member, Visitor, read};

use crate::pack::{gz, tar, tar_file, zip, zip_file, zst};

/// Parses each file, as the ingestion does.
struct Parsing {
    settings: usize,
}

impl Visitor for Parsing {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        let document = Document::parse(member.bytes).unwrap();
        self.settings += document.setting_count() + document.stanzas().len();
        ControlFlow::Continue(())
    }
}

/// The most memory that this process ever had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// A file of nearly 16 MiB with as many settings and stanzas as fit into it.
fn dense() -> Vec<u8> {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < (16 << 20) - 32 {
        number += 1;
        text.push_str(&format!("{number:x}=\n"));
        if number % 2 == 0 {
            text.push_str(&format!("[{number:x}]\n"));
        }
    }
    text.into_bytes()
}

#[test]
#[cfg(target_os = "linux")]
fn the_worst_uploads_stay_under_half_a_gibibyte() {
    let dense = dense();
    let plain = gz(&tar(&[tar_file("x.conf", &dense)]));
    let nested = zst(&tar(&[tar_file("a.zip", &zip(&[zip_file("b.tgz", &plain)]))]));
    let bomb = gz(&tar(&[tar_file("x.bin", &vec![0; 64 << 20]), tar_file("x.conf", CONF)]));
    drop(dense);
    let before = peak();
    let limits = Limits { max_ratio: u64::MAX, ..Limits::default() };
    for (bytes, least) in [(plain, 2_000_000), (nested, 2_000_000), (bomb, 2)] {
        let mut parsing = Parsing { settings: 0 };
        read(&mut Cursor::new(bytes), "x", &limits, &AtomicBool::new(false), &mut parsing).unwrap();
        assert!(parsing.settings >= least, "{}", parsing.settings);
    }
    let after = peak();
    assert!(after < 512, "{before} MiB before, {after} MiB after");
}

const CONF: &[u8] = crate::pack::CONF;
