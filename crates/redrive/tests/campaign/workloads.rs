//! The work of a campaign: partitions, jobs and uploads, of which it is known from the beginning what must come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    Extract,
    Process,
    Ingest,
}

impl Workload {
    pub const ALL: [Self; 3] = [Self::Extract, Self::Process, Self::Ingest];

    pub fn word(self) -> &'static str {
        match self {
            Self::Extract => "extract",
            Self::Process => "process",
            Self::Ingest => "ingest",
        }
    }
}

/// Attempts that the policy allows to a partition, a job and an upload.
pub const MAX_ATTEMPTS: i64 = 12;
/// Records of every partition of each source.
pub const RECORDS: [(&str, usize); 2] = [("flaky", 60), ("program", 20)];
pub const JOBS_AT_ONCE: u32 = 40;
const DAYS: u32 = 12;
const FILES: usize = 20;

/// `MARK` stands for a text by which the programs of this campaign are known.
pub const SETTINGS: &str = r#"
[worker]
concurrency = 6
lease = "3s"
heartbeat = "500ms"
poll = "200ms"
grace = "2s"

[sources.flaky]
max_in_flight = 12
[sources.flaky.extract]
kind = "sample"
seed = 7
records = 60
latency = "60ms"
failure = 0.10
truncation = 0.05
rate_limit = 0.01
retry_after = "1s"
gone = 0.02
[sources.flaky.validate]
min_records = 50
unique = ["id"]
[sources.flaky.breaker]
after = 0
[sources.flaky.retry]
base = "300ms"
cap = "2s"
jitter = "100ms"
max_attempts = 12

[sources.program]
max_in_flight = 8
[sources.program.extract]
kind = "command"
command = ["sh", "./extract", "MARK"]
[sources.program.breaker]
after = 0
[sources.program.retry]
base = "300ms"
cap = "2s"
jitter = "100ms"
max_attempts = 12

[process.jobs]
categories = ["a", "b"]
command = ["sh", "./handle", "MARK"]
max_in_flight = 40
[process.jobs.retry]
base = "200ms"
cap = "1s"
max_attempts = 12

[ingest]
batch_rows = 25
[ingest.retry]
delays = ["200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms"]
"#;

/// Holds a lock as long as it or anything that it started lives; one that finds the lock taken writes it down.
pub const EXTRACT: &str = r#"
exec 9>"locks/$REDRIVE_CUSTOMER_ID-$REDRIVE_LOGICAL_DATE"
flock -n 9 || echo "$REDRIVE_RUN_ID" >> twice-extract
n=0
while [ $n -lt 20 ]; do
    echo "{\"id\":$n,\"customer_id\":\"$REDRIVE_CUSTOMER_ID\",\"date\":\"$REDRIVE_LOGICAL_DATE\"}"
    n=$((n + 1))
done
sleep 0.05
"#;

/// The same for jobs. One job in ten is never to be done, one in ten only at its second attempt, and one in ten takes long.
pub const HANDLE: &str = r#"
read -r job
exec 9>"locks/$REDRIVE_RUN_ID"
flock -n 9 || echo "$REDRIVE_RUN_ID" >> twice-process
sleep 0.05
case "$job" in
    *'"payload":3}') exit 65 ;;
    *'"payload":4}') test "$REDRIVE_ATTEMPT" -gt 1 || exit 75 ;;
    *'"payload":5}') sleep 0.3 ;;
esac
echo '{"verdict":"passed"}'
"#;

/// Source, customer, query and day.
pub type Key = (String, String, String, String);
/// File, stanza, key and value.
pub type Setting = (String, String, String, String);

/// A worker of all workloads.
pub const WORKER: &str = "worker";
/// A worker of jobs alone, which claims so many of them at once that they are in bundles.
pub const JOBS_WORKER: &str = "worker --workload process --concurrency 24";

/// What was asked for so far.
#[derive(Debug, Default)]
pub struct Expected {
    pub partitions: BTreeSet<Key>,
    /// The payload of each job, by its external id.
    pub jobs: BTreeMap<String, u32>,
    /// What is in each archive, by the hash of its bytes.
    pub archives: BTreeMap<String, BTreeSet<Setting>>,
    batches: u32,
}

/// Days of one query of a customer.
pub struct Range {
    pub source: &'static str,
    pub customer: String,
    pub query: &'static str,
    pub until: String,
}

impl Range {
    pub fn filter(&self) -> String {
        let Self { source, customer, query, until } = self;
        format!("--source {source} --customer-id {customer} --query-name {query} --since 2026-01-01 --until {until}")
    }
}

impl Expected {
    fn batch(&mut self) -> u32 {
        self.batches += 1;
        self.batches
    }

    /// Days that nobody has asked for yet.
    pub fn range(&mut self) -> Range {
        let batch = self.batch();
        let (source, query) = if batch.is_multiple_of(2) { ("flaky", "a") } else { ("program", "b") };
        let customer = format!("c{batch}");
        for day in 1..=DAYS {
            let date = format!("2026-01-{day:02}");
            self.partitions.insert((source.to_owned(), customer.clone(), query.to_owned(), date));
        }
        Range { source, customer, query, until: format!("2026-01-{DAYS:02}") }
    }

    /// A file of jobs, as its lines.
    pub fn jobs(&mut self) -> String {
        let batch = self.batch();
        let mut lines = String::new();
        for nth in 0..JOBS_AT_ONCE {
            let (id, category, payload) =
                (format!("{batch}-{nth}"), if batch.is_multiple_of(2) { "a" } else { "b" }, nth % 10);
            lines += &format!("{{\"external_id\":\"{id}\",\"category\":\"{category}\",\"payload\":{payload}}}\n");
            self.jobs.insert(id, payload);
        }
        lines
    }

    /// An archive that is like no other.
    pub fn archive(&mut self) -> Vec<u8> {
        let batch = self.batch();
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut settings = BTreeSet::new();
        for file in 0..FILES {
            let path = format!("app/default/conf{file}.conf");
            let mut text = String::new();
            for stanza in 0..5 {
                text += &format!("[s{stanza}]\n");
                for key in 0..4 {
                    let value = format!("{batch} {file} {stanza} {key}");
                    text += &format!("k{key} = {value}\n");
                    settings.insert((path.clone(), format!("s{stanza}"), format!("k{key}"), value));
                }
            }
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(text.len()).unwrap());
            header.set_mode(0o644);
            tar.append_data(&mut header, &path, text.as_bytes()).unwrap();
        }
        let mut gzip = tar.into_inner().unwrap();
        gzip.flush().unwrap();
        let bytes = gzip.finish().unwrap();
        self.archives.insert(hash(&bytes), settings);
        bytes
    }
}

/// SHA-256 in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
