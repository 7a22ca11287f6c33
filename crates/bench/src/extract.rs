//! `bench extract`: JSON lines through the `command` extractor into a raw sink, and through the validator.

use std::fmt::Write as _;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::count;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::Judgement;
use redrive_data::extract::{Extractor, ExtractorContext, Job, Records, command};
use redrive_data::program::ChildTracker;
use redrive_data::settings::Surroundings;
use redrive_data::validate::{self, Rules, Submission};
use redrive_store::clock::{Clock, SystemClock};
use redrive_store::raw::{Manifest, RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use serde::Serialize;
use uuid::Uuid;

use crate::figures::{Summary, alone, compared};
use crate::flags::BenchExtract;
use crate::measure::{OnPhase, phase, rate, ratio};
use crate::{Error, Result};

#[derive(Debug, Serialize)]
pub struct ExtractFigures {
    bench: &'static str,
    bytes: u64,
    records: u64,
    extract_mb_per_s: f64,
    validate_mb_per_s: f64,
    baseline_mb_per_s: Option<f64>,
    extract_ratio: Option<f64>,
    peak_memory_mb: Option<u64>,
}

pub async fn run(args: &BenchExtract, on_phase: OnPhase<'_>) -> Result<ExtractFigures> {
    let scratch = tempfile::tempdir().map_err(Error::io("cannot make a folder for the bench"))?;
    let file = scratch.path().join("lines.jsonl");
    let bytes = args.megabytes * 1_000_000;
    let (bytes, _) = phase(on_phase, "making lines up", async {
        make_up(&file, bytes).map_err(Error::io("cannot write the made-up lines"))
    })
    .await?;
    let raw: RawUrl = format!("file:{}", scratch.path().join("raw").display()).parse()?;
    let sink = RawSink::open(&raw, &RawOptions::default()).await?;
    let (manifest, extracting) = phase(on_phase, "extract", extract(&sink, &file)).await?;
    let (judgement, validating) = phase(on_phase, "validate", judge(&sink, &manifest)).await?;
    if !matches!(judgement, Judgement::Accepted { .. }) {
        return Err(Error::Failed(format!("the lines were rejected: {judgement:?}")));
    }
    // Before the baseline, whose buffers are not Redrive's.
    let peak_memory_mb = peak_memory();
    let baseline = match args.baseline {
        true => {
            let target = scratch.path().join("plain.zst");
            let compress = async { plain_zstd(&file, &target).map_err(Error::io("cannot compress the made-up lines")) };
            Some(phase(on_phase, "zstd", compress).await?.1)
        }
        false => None,
    };
    let ours = megabytes(bytes, extracting);
    let theirs = baseline.map(|took| megabytes(bytes, took));
    Ok(ExtractFigures {
        bench: "extract",
        bytes,
        records: manifest.records,
        extract_mb_per_s: ours,
        validate_mb_per_s: megabytes(bytes, validating),
        baseline_mb_per_s: theirs,
        extract_ratio: theirs.map(|theirs| ratio(ours, theirs)),
        peak_memory_mb,
    })
}

/// Records like those of an advertising report; the same ones every time.
fn make_up(file: &Path, wanted: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(file)?);
    let (mut written, mut id, mut dice, mut line) = (0, 0_u64, 1_u64, String::new());
    while written < wanted {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (campaign, clicks, cents) = (dice >> 31, (dice >> 13) % 5000, (dice >> 7) % 1_000_000);
        let device = match (dice >> 40) % 3 {
            0 => "MOBILE",
            1 => "DESKTOP",
            _ => "TABLET",
        };
        line.clear();
        let _ = writeln!(
            line,
            r#"{{"id":{id},"campaign":{{"id":"{campaign}","name":"spring sale {}"}},"date":"2026-01-01","clicks":{clicks},"cost":{}.{:02},"device":"{}"}}"#,
            campaign % 1000,
            cents / 100,
            cents % 100,
            device,
        );
        out.write_all(line.as_bytes())?;
        written += count::of(line.len());
        id += 1;
    }
    out.flush()?;
    Ok(written)
}

async fn extract(sink: &RawSink, file: &Path) -> Result<Manifest> {
    let settings = command::Settings {
        command: vec!["cat".to_owned(), file.display().to_string()],
        timeout: None,
        directory: None,
        env: std::collections::BTreeMap::new(),
    };
    let context = ExtractorContext { around: Surroundings::default(), clock: Arc::new(SystemClock) };
    let extractor = command::Command::new(&settings, &context).map_err(Error::failed)?;
    let key = PartitionKey::new("bench", "bench", "bench", "2026-01-01").map_err(Error::failed)?;
    let (run_id, fence) = (RunId::from_uuid(Uuid::now_v7()), TaskId::from_uuid(Uuid::now_v7()));
    let started_at = SystemClock.now();
    let attempt = RunHeader { key: key.clone(), run_id, fence, extractor: extractor.name().to_owned(), started_at };
    let mut records = Records::new(sink.begin(attempt));
    let job = Job { key, run_id, attempt: 1, query: None, children: ChildTracker::default() };
    extractor.extract(&job, &mut records).await?;
    Ok(records.finish(RunOutcome::Complete, SystemClock.now()).await?.0)
}

async fn judge(sink: &RawSink, manifest: &Manifest) -> Result<Judgement> {
    let settings = validate::Settings {
        required_fields: vec!["campaign.id".to_owned()],
        unique: vec!["id".to_owned()],
        date_field: Some("date".to_owned()),
        ..validate::Settings::default()
    };
    let rules: Rules = settings.build().map_err(Error::failed)?;
    let submission = Submission {
        key: manifest.key.clone(),
        run_id: manifest.run_id,
        fence: manifest.fence,
        replaces: None,
        not_before: None,
    };
    validate::judge(&sink.view(), &rules, &submission).await.map_err(Error::failed)
}

/// What one core does with nothing but the compressor: level 1, as the sink has it.
fn plain_zstd(from: &Path, to: &Path) -> std::io::Result<()> {
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
    (rate(bytes, took) / 1_000_000.0).round()
}

/// The kernel's own account; only Linux gives it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes / 1000)
}

impl ExtractFigures {
    pub(crate) fn summary(&self) -> Summary {
        let memory = self.peak_memory_mb.map_or_else(String::new, |memory| format!("{memory} MB"));
        Summary {
            heading: format!("{} records, {} MB of JSON lines", self.records, self.bytes / 1_000_000),
            columns: ["", "redrive", "zstd -1", "of it"],
            rows: vec![
                compared("extract", " MB/s", self.extract_mb_per_s, self.baseline_mb_per_s, self.extract_ratio),
                alone("validate", format!("{} MB/s", self.validate_mb_per_s)),
                alone("peak memory", memory),
            ],
            notes: Vec::new(),
        }
    }
}
