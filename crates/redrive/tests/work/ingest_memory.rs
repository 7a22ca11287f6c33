//! The memory of real processes: a worker that parses the worst archives at full concurrency, and a listing of very many
//! stanzas.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::home::TestProgram;
use crate::rig::TestProcesses;

/// The ratio is no limit here, so that what is easily made can be large.
const SETTINGS: &str =
    "[ingest]\nmax_ratio = 1000000\n[ingest.retry]\ndelays = [\"100ms\"]\n[worker]\nconcurrency = 8\n";

/// The most memory that a process has had, in MiB, while it lasts.
fn peak_until_it_ends(child: &mut Child) -> u64 {
    let mut peak = 0;
    until_within(Duration::from_secs(1800), "it ends", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = now.map_or(peak, |kilobytes| peak.max(kilobytes / 1024));
        child.try_wait().unwrap().is_some()
    });
    peak
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).unwrap());
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Compresses with a window of so many bits, which a decompressor must have too.
fn zst(bytes: &[u8], window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(window_log).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// A file of nearly so many bytes, all of it settings as short as can be, in one stanza or in very many.
fn dense(bytes: usize, stanzas: bool) -> Vec<u8> {
    let mut text = String::from("[s]\n");
    let mut number = 0;
    while text.len() < bytes - 32 {
        number += 1;
        writeln!(text, "{number:x}=").unwrap();
        if stanzas && number % 2 == 0 {
            writeln!(text, "[{number:x}]").unwrap();
        }
    }
    text.into_bytes()
}

/// One value of nearly so many bytes, all of it different words.
fn wordy(bytes: usize) -> Vec<u8> {
    let mut text = String::from("[s]\nk = ");
    let mut number = 0;
    while text.len() < bytes - 32 {
        number += 1;
        write!(text, "{number:x} ").unwrap();
    }
    text.into_bytes()
}

/// Windows of decompressors that are full at each depth, and the file in the middle of it all.
fn nested(file: &[u8]) -> Vec<u8> {
    let third = zst(&tar(&[("pad", &vec![0; 17 << 20]), ("x.conf", file)]), 24);
    let second = zst(&tar(&[("pad", &vec![0; 17 << 20]), ("third.zst", &third)]), 24);
    zst(&tar(&[("pad", &vec![0; 65 << 20]), ("second.zst", &second)]), 26)
}

/// So many bytes in each file: 16 MiB is the most that a worker takes.
fn the_worst_archives(subject: TestProgram, bytes: usize, most: u64) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let one = dense(bytes, false);
    let many = dense(bytes, true);
    let archives = [
        nested(&many),
        zst(&tar(&[("x.conf", &one)]), 20),
        zst(&tar(&[("x.conf", &wordy(bytes)), ("y.conf", b"[a]\n")]), 20),
        nested(&one),
        zst(&tar(&[("pad", &vec![0; 65 << 20]), ("x.conf", &many)]), 26),
    ];
    for (nth, archive) in archives.iter().enumerate() {
        let name = format!("{nth}.tar.zst");
        std::fs::write(rig.subject.home.file(&name), archive).unwrap();
        rig.redrive(&format!("ingest upload {name} -q -o json")).done();
    }
    drop((one, many, archives));
    let mut worker = rig.spawn("worker --drain --workload ingest");
    let peak = peak_until_it_ends(&mut worker.child);
    let done = rig.number("SELECT count(*) FROM runs WHERE state = 'done'");
    println!("{peak} MiB at the most, {} settings", rig.number("SELECT count(*) FROM settings"));
    assert_eq!(done, 5, "{}", rig.logs());
    assert!(peak > 50 && peak < most, "{peak} MiB");
}

fn smaller_bad_archives_stay_under_half_a_gibibyte(subject: TestProgram) {
    the_worst_archives(subject, 1 << 20, 512);
}

redrive_fixture::on_both!(smaller_bad_archives_stay_under_half_a_gibibyte);

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_the_worst_archives_stay_under_half_a_gibibyte_on_sqlite() {
    the_worst_archives(TestDatabase::sqlite().into(), 16 << 20, 512);
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_the_worst_archives_stay_under_half_a_gibibyte_on_postgres() {
    the_worst_archives(TestDatabase::postgres().into(), 16 << 20, 512);
}

/// The peak of a listing of so many stanzas, in MiB.
fn listing(rig: &TestProcesses, stanzas: u32) -> u64 {
    let mut text = String::new();
    for nth in 0..stanzas {
        writeln!(text, "[stanza {nth}]\na = {nth}\nb = some value of stanza {nth}").unwrap();
    }
    let name = format!("{stanzas}.conf");
    rig.subject.home.write(&name, &text);
    let told = rig.redrive(&format!("ingest upload {name} -o json")).done().json();
    rig.redrive("worker --drain --workload ingest").done();
    let id = told["runs"][0]["id"].as_str().unwrap();
    let mut command = rig.subject.home.command(&["ingest", "stanzas", id, "-o", "json"]);
    let out = std::fs::File::create(rig.subject.home.file("out.json")).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(out).spawn().unwrap();
    let peak = peak_until_it_ends(&mut child);
    let all: serde_json::Value =
        serde_json::from_reader(std::fs::File::open(rig.subject.home.file("out.json")).unwrap()).unwrap();
    assert_eq!(all["stanzas"].as_array().unwrap().len(), usize::try_from(stanzas).unwrap());
    peak
}

fn stanzas_are_listed_in_flat_memory(subject: TestProgram, few: u32, many: u32) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let (small, large) = (listing(&rig, few), listing(&rig, many));
    println!("{small} MiB for {few} stanzas, {large} MiB for {many}");
    // The database's own cache of pages grows a little with what is there.
    assert!(large < small + 32, "{small} MiB for {few} stanzas, {large} MiB for {many}");
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_two_hundred_thousand_stanzas_are_listed_in_flat_memory_on_sqlite() {
    stanzas_are_listed_in_flat_memory(TestDatabase::sqlite().into(), 20_000, 200_000);
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_two_hundred_thousand_stanzas_are_listed_in_flat_memory_on_postgres() {
    stanzas_are_listed_in_flat_memory(TestDatabase::postgres().into(), 20_000, 200_000);
}
