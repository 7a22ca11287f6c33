//! `bench extract`: JSON lines through the `command` extractor into a raw sink, and through the validator.

use std::fmt::Write as _;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::Judgement;
use redrive_data::extract::{Extractor, ExtractorContext, Job, Records, command};
use redrive_data::program::{ChildReaper, ChildTracker};
use redrive_data::validate::{self, Rules, Submission};
use redrive_store::clock::{Clock, SystemClock};
use redrive_store::raw::{Attempt, Manifest, Outcome, RawOptions, RawSink, RawUrl};
use serde::Serialize;
use uuid::Uuid;

use super::measure::{phase, ratio};
use crate::cli::{BenchExtract, Format};
use crate::commands::Context;
use crate::exit::Exit;
use crate::output;

#[derive(Debug, Serialize)]
struct Figures {
    bench: &'static str,
    bytes: u64,
    records: u64,
    extract_mb_per_s: f64,
    validate_mb_per_s: f64,
    baseline_mb_per_s: Option<f64>,
    extract_ratio: Option<f64>,
    peak_memory_mb: Option<u64>,
}

pub async fn run(args: &BenchExtract, context: &Context) -> anyhow::Result<Exit> {
    let quiet = context.global.quiet;
    let scratch = tempfile::tempdir().context("cannot make a folder for the bench")?;
    let file = scratch.path().join("lines.jsonl");
    let bytes = args.megabytes * 1_000_000;
    let (bytes, _) = phase(quiet, "making lines up", async { make_up(&file, bytes) }).await?;
    let raw: RawUrl = format!("file:{}", scratch.path().join("raw").display()).parse()?;
    let sink = RawSink::open(&raw, &RawOptions::default()).await?;
    let (manifest, extracting) = phase(quiet, "extract", extract(&sink, &file)).await?;
    let (judgement, validating) = phase(quiet, "validate", judge(&sink, &manifest)).await?;
    anyhow::ensure!(matches!(judgement, Judgement::Accepted { .. }), "the lines were rejected: {judgement:?}");
    // Before the baseline, whose buffers are not Redrive's.
    let peak_memory_mb = peak_memory();
    let baseline = match args.baseline {
        true => Some(phase(quiet, "zstd", async { plain_zstd(&file, &scratch.path().join("plain.zst")) }).await?.1),
        false => None,
    };
    let ours = megabytes(bytes, extracting);
    let theirs = baseline.map(|took| megabytes(bytes, took));
    let figures = Figures {
        bench: "extract",
        bytes,
        records: manifest.records,
        extract_mb_per_s: ours,
        validate_mb_per_s: megabytes(bytes, validating),
        baseline_mb_per_s: theirs,
        extract_ratio: theirs.map(|theirs| ratio(ours, theirs)),
        peak_memory_mb,
    };
    show(&figures, context.global.output)?;
    Ok(Exit::Done)
}

/// Records like those of an advertising report; the same ones every time.
fn make_up(file: &Path, wanted: u64) -> anyhow::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(file)?);
    let (mut written, mut id, mut dice, mut line) = (0, 0_u64, 1_u64, String::new());
    while written < wanted {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (campaign, clicks, cents) = (dice >> 31, (dice >> 13) % 5000, (dice >> 7) % 1_000_000);
        line.clear();
        writeln!(
            line,
            r#"{{"id":{id},"campaign":{{"id":"{campaign}","name":"spring sale {}"}},"date":"2026-01-01","clicks":{clicks},"cost":{}.{:02},"device":"{}"}}"#,
            campaign % 1000,
            cents / 100,
            cents % 100,
            ["MOBILE", "DESKTOP", "TABLET"][usize::try_from(dice >> 40)? % 3],
        )?;
        out.write_all(line.as_bytes())?;
        written += u64::try_from(line.len())?;
        id += 1;
    }
    out.flush()?;
    Ok(written)
}

async fn extract(sink: &RawSink, file: &Path) -> anyhow::Result<Manifest> {
    let settings = command::Settings {
        command: vec!["cat".to_owned(), file.display().to_string()],
        timeout: None,
        directory: None,
        env: std::collections::BTreeMap::new(),
    };
    let context =
        ExtractorContext { variable: &|_| None, clock: Arc::new(SystemClock), reaper: ChildReaper::default() };
    let extractor = command::Command::new(&settings, &context).map_err(anyhow::Error::msg)?;
    let key = PartitionKey::new("bench", "bench", "bench", "2026-01-01")?;
    let (run_id, fence) = (RunId::from_uuid(Uuid::now_v7()), TaskId::from_uuid(Uuid::now_v7()));
    let started_at = SystemClock.now();
    let attempt = Attempt { key: key.clone(), run_id, fence, extractor: extractor.name().to_owned(), started_at };
    let mut records = Records::new(sink.begin(attempt));
    let job = Job { key, run_id, attempt: 1, query: None, children: ChildTracker::default() };
    extractor.extract(&job, &mut records).await?;
    Ok(records.finish(Outcome::Complete, SystemClock.now()).await?.0)
}

async fn judge(sink: &RawSink, manifest: &Manifest) -> anyhow::Result<Judgement> {
    let settings = validate::Settings {
        required_fields: vec!["campaign.id".to_owned()],
        unique: vec!["id".to_owned()],
        date_field: Some("date".to_owned()),
        ..validate::Settings::default()
    };
    let rules: Rules = settings.build().map_err(anyhow::Error::msg)?;
    let submission = Submission {
        key: manifest.key.clone(),
        run_id: manifest.run_id,
        fence: manifest.fence,
        replaces: None,
        not_before: None,
    };
    Ok(validate::judge(&sink.view(), &rules, &submission).await?)
}

/// What one core does with nothing but the compressor: level 1, as the sink has it.
fn plain_zstd(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut from = std::fs::File::open(from)?;
    let mut encoder = zstd::Encoder::new(std::fs::File::create(to)?, 1)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            encoder.finish()?;
            return Ok(());
        }
        encoder.write_all(&buffer[..read])?;
    }
}

fn megabytes(bytes: u64, took: Duration) -> f64 {
    (super::measure::rate(bytes, took) / 1_000_000.0).round()
}

/// The kernel's own account; only Linux gives it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes / 1000)
}

fn show(figures: &Figures, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json | Format::Jsonl => return output::json(figures),
        Format::Table | Format::Csv => {}
    }
    let Figures { bytes, records, .. } = figures;
    output::line(&format!("{records} records, {} MB of JSON lines", bytes / 1_000_000))?;
    let theirs = figures.baseline_mb_per_s.map_or_else(String::new, |theirs| format!("{theirs} MB/s"));
    let of_it = figures.extract_ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0));
    let memory = figures.peak_memory_mb.map_or_else(String::new, |memory| format!("{memory} MB"));
    let rows = vec![
        vec!["extract".to_owned(), format!("{} MB/s", figures.extract_mb_per_s), theirs, of_it],
        vec!["validate".to_owned(), format!("{} MB/s", figures.validate_mb_per_s), String::new(), String::new()],
        vec!["peak memory".to_owned(), memory, String::new(), String::new()],
    ];
    output::line(&output::table(&["", "redrive", "zstd -1", "of it"], rows))
}
