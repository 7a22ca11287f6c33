//! `bench conf`: how fast configuration files are parsed, beside ksconf on the same files in the same run.
//!
//! Then all the way into a database, durably, beside the same parse by ksconf; and the inserts alone, beside a bare loop.
//!
//! Both have the bytes in memory, decode and parse them; both must find the same stanzas and settings. Redrive is measured
//! before and after ksconf, so that a machine that becomes slower or faster meanwhile favours neither.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use redrive_conf::Document;
use redrive_core::count;
use redrive_data::ingest::archive::{self, Limits, Member, Visitor};
use redrive_store::StoreUrl;
use serde::{Deserialize, Serialize};

use crate::figures::{Summary, alone, compared};
use crate::flags::BenchConf;
use crate::measure::{OnPhase, phase, rate, ratio};
use crate::{Error, Result, conf_store};

#[derive(Debug, Serialize)]
pub struct ConfFigures {
    bench: &'static str,
    files: u64,
    bytes: u64,
    stanzas: u64,
    settings: u64,
    parse_mb_per_s: f64,
    settings_per_s: f64,
    baseline: Option<String>,
    baseline_mb_per_s: Option<f64>,
    parse_ratio: Option<f64>,
    store: String,
    end_to_end_mb_per_s: f64,
    end_to_end_ratio: Option<f64>,
    insert_rows_per_s: f64,
    baseline_insert_rows_per_s: f64,
    insert_ratio: f64,
}

/// What one pass over all files found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Found {
    stanzas: u64,
    settings: u64,
}

/// Passes of Redrive over all files.
#[derive(Debug, Clone, Copy)]
struct Passes {
    found: Found,
    took: Duration,
    rounds: u32,
}

/// What the program of the baseline prints.
#[derive(Debug, Deserialize)]
struct KsconfReport {
    version: String,
    seconds: f64,
    rounds: u32,
    #[serde(flatten)]
    found: Found,
}

/// Each measurement goes on until this much time has gone by, and makes at least one pass.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

pub async fn run(args: &BenchConf, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<ConfFigures> {
    let scratch = tempfile::tempdir().map_err(Error::io("cannot make a folder for the bench"))?;
    let (files, _) = phase(on_phase, "unpacking", async { unpack(&args.dir, scratch.path()) }).await?;
    let bytes: u64 = files.iter().map(|bytes| count::of(bytes.len())).sum();
    let (mut ours, _) = phase(on_phase, "parse", async { parse_all(&files) }).await?;
    let report = match args.baseline {
        true => {
            let (report, _) = phase(on_phase, "ksconf", async { ksconf(&python(args), scratch.path()) }).await?;
            let (again, _) = phase(on_phase, "parse", async { parse_all(&files) }).await?;
            ours.took += again.took;
            ours.rounds += again.rounds;
            Some(report)
        }
        false => None,
    };
    let Passes { found, took, rounds } = ours;
    if let Some(report) = report.as_ref().filter(|report| report.found != found) {
        return Err(Error::Failed(format!("ksconf finds {:?}, Redrive {found:?}", report.found)));
    }
    let ours = megabytes(bytes * u64::from(rounds), took);
    let theirs = match &report {
        Some(report) => {
            let took = Duration::try_from_secs_f64(report.seconds).map_err(Error::failed)?;
            Some(megabytes(bytes * u64::from(report.rounds), took))
        }
        None => None,
    };
    let stored = conf_store::run(url, &args.dir, &files, on_phase).await?;
    let end_to_end = megabytes(bytes * u64::from(stored.rounds), stored.took);
    let (inserts, bare) = (rate(stored.rows, stored.inserts), rate(stored.rows, stored.bare_inserts));
    Ok(ConfFigures {
        bench: "conf",
        files: u64::try_from(files.len())?,
        bytes,
        stanzas: found.stanzas,
        settings: found.settings,
        parse_mb_per_s: ours,
        settings_per_s: rate(found.settings * u64::from(rounds), took),
        baseline: report.map(|report| format!("ksconf {}", report.version)),
        baseline_mb_per_s: theirs,
        parse_ratio: theirs.map(|theirs| ratio(ours, theirs)),
        store: url.place(),
        end_to_end_mb_per_s: end_to_end,
        end_to_end_ratio: theirs.map(|theirs| ratio(end_to_end, theirs)),
        insert_rows_per_s: inserts,
        baseline_insert_rows_per_s: bare,
        insert_ratio: ratio(inserts, bare),
    })
}

fn megabytes(bytes: u64, took: Duration) -> f64 {
    (rate(bytes, took) / 10_000.0).round() / 100.0
}

/// Writes the files of one upload into a folder.
struct Unpack<'f> {
    folder: &'f Path,
    files: &'f mut Vec<Vec<u8>>,
    failed: Option<std::io::Error>,
}

impl Visitor for Unpack<'_> {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        // A file that either parser refuses would be measured for half of its bytes.
        let is_good = Document::parse(member.bytes).is_ok_and(|document| document.fault().is_none());
        if !is_good {
            return ControlFlow::Continue(());
        }
        let path = self.folder.join(format!("{:06}.conf", self.files.len()));
        if let Err(error) = std::fs::write(&path, member.bytes) {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        self.files.push(member.bytes.to_vec());
        ControlFlow::Continue(())
    }
}

/// Takes the configuration files out of every archive of a folder, and the single files beside them; they are kept, and
/// written to another folder for ksconf.
fn unpack(from: &Path, to: &Path) -> Result<Vec<Vec<u8>>> {
    let read = || Error::io(format!("cannot read {}", from.display()));
    let mut uploads: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(from).map_err(read())? {
        uploads.push(entry.map_err(read())?.path());
    }
    uploads.sort();
    let mut files = Vec::new();
    for upload in uploads.iter().filter(|upload| upload.is_file()) {
        let bytes = std::fs::read(upload).map_err(Error::io(format!("cannot read {}", upload.display())))?;
        let name = upload.file_name().unwrap_or_default().to_string_lossy();
        let mut unpack = Unpack { folder: to, files: &mut files, failed: None };
        let never = AtomicBool::new(false);
        let done = archive::read(&mut Cursor::new(bytes), &name, &Limits::default(), &never, &mut unpack);
        match (done, unpack.failed) {
            (_, Some(error)) => return Err(Error::io("cannot write into the folder of the bench")(error)),
            // A folder may hold other things beside the archives.
            (Ok(_) | Err(archive::Error::Refused(_)), None) => {}
            (Err(error), None) => return Err(Error::failed(error)),
        }
    }
    if files.is_empty() {
        let message = format!("{} has no configuration files and no archives of them", from.display());
        return Err(Error::Refused(message));
    }
    Ok(files)
}

fn parse_all(files: &[Vec<u8>]) -> Result<Passes> {
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        let found = parse_once(files)?;
        rounds += 1;
        if start.elapsed() >= LONG_ENOUGH {
            return Ok(Passes { found, took: start.elapsed(), rounds });
        }
    }
}

fn parse_once(files: &[Vec<u8>]) -> Result<Found> {
    let mut found = Found::default();
    for bytes in files {
        let document = Document::parse(bytes).map_err(Error::failed)?;
        for stanza in document.stanzas() {
            found.stanzas += 1;
            found.settings += u64::try_from(stanza.settings().len())?;
        }
    }
    Ok(found)
}

/// The same loop in Python. It takes its own time, so that the start of Python does not count.
const KSCONF: &str = r#"
import glob, io, json, sys, time
from ksconf.conf.parser import parse_conf, PARSECONF_LOOSE
try:
    from ksconf.version import version
except ImportError:
    version = "of unknown version"
files = []
for path in sorted(glob.glob(sys.argv[1] + "/*.conf")):
    with open(path, "rb") as file:
        data = file.read()
    files.append((data, "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"))
rounds, start = 0, time.perf_counter()
while rounds == 0 or time.perf_counter() - start < float(sys.argv[2]):
    stanzas = settings = 0
    for data, encoding in files:
        conf = parse_conf(io.TextIOWrapper(io.BytesIO(data), encoding), PARSECONF_LOOSE)
        stanzas += len(conf)
        settings += sum(len(stanza) for stanza in conf.values())
    rounds += 1
seconds = time.perf_counter() - start
print(json.dumps(dict(version=version, seconds=seconds, rounds=rounds, stanzas=stanzas, settings=settings)))
"#;

/// The Python that ksconf runs under: the one that was given, or the one beside the program, or any.
fn python(args: &BenchConf) -> PathBuf {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("ksconf")).find(|program| program.is_file())
    };
    let beside = |program: PathBuf| {
        let real = std::fs::canonicalize(&program).unwrap_or(program);
        Some(real.parent()?.join("python3")).filter(|python| python.exists())
    };
    let found = || args.ksconf.clone().or_else(in_path).and_then(beside);
    args.python.clone().or_else(found).unwrap_or_else(|| PathBuf::from("python3"))
}

fn ksconf(python: &Path, folder: &Path) -> Result<KsconfReport> {
    let install = "python3 -m venv ksconf && ksconf/bin/pip install ksconf==0.13.10";
    let advice = format!("install it by `{install}` and set KSCONF=ksconf/bin/ksconf");
    let mut command = Command::new(python);
    command.arg("-c").arg(KSCONF).arg(folder).arg(LONG_ENOUGH.as_secs().to_string());
    let output = command
        .output()
        .map_err(|error| Error::Refused(format!("cannot run {}: {error}; ksconf: {advice}", python.display())))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.trim().lines().last().unwrap_or("it said nothing").to_owned();
        let message = format!("ksconf does not run under {}: {last}; {advice}", python.display());
        return Err(Error::Refused(message));
    }
    serde_json::from_slice(&output.stdout).map_err(Error::failed)
}

impl ConfFigures {
    pub fn summary(&self) -> Summary {
        let rows = vec![
            compared("parse", " MB/s", self.parse_mb_per_s, self.baseline_mb_per_s, self.parse_ratio),
            alone("settings", format!("{:.0}/s", self.settings_per_s)),
            compared("end to end", " MB/s", self.end_to_end_mb_per_s, self.baseline_mb_per_s, self.end_to_end_ratio),
        ];
        let heading = format!("conf: {} files, {} bytes, {} stanzas", self.files, self.bytes, self.stanzas);
        let mut notes: Vec<String> =
            self.baseline.iter().map(|baseline| format!("baseline: {baseline}, its parse alone")).collect();
        let percent = self.insert_ratio * 100.0;
        notes.push(format!("end to end: from archives to stanzas in {}, durable", self.store));
        notes.push(format!(
            "inserts: {:.0} rows/s, a bare loop of the same statements {:.0} rows/s ({percent:.0} %)",
            self.insert_rows_per_s, self.baseline_insert_rows_per_s
        ));
        Summary { heading, columns: ["", "redrive", "ksconf", "of it"], rows, notes }
    }
}
