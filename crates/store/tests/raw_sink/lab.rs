//! A sink to experiment on, and a way past it to look at and tamper with what it holds.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;
use redrive_fixture::{Bucket, S3};
use redrive_store::raw::{Manifest, RawOptions, RawSink, RawUrl, RawView, RunHeader, RunOutcome, S3Options};
use tempfile::TempDir;

pub const PREFIX: &str = "lake/raw";

pub struct Lab {
    pub url: RawUrl,
    pub options: RawOptions,
    under: Under,
}

enum Under {
    Files(TempDir),
    S3(Arc<AmazonS3>),
}

impl Lab {
    pub fn files() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Made by the sink, and named so that nothing may decode or encode it.
        let url = RawUrl::File(dir.path().join("my raw%20"));
        Self { url, options: RawOptions::default(), under: Under::Files(dir) }
    }

    pub fn s3() -> Self {
        let bucket = S3::shared().fresh_bucket();
        let client = AmazonS3Builder::new()
            .with_bucket_name(&bucket.name)
            .with_endpoint(&bucket.endpoint)
            .with_region(&bucket.region)
            .with_access_key_id(&bucket.access_key)
            .with_secret_access_key(&bucket.secret_key)
            .with_allow_http(true);
        let url = format!("s3://{}/{PREFIX}", bucket.name).parse().unwrap();
        let options = RawOptions { s3: settings(&bucket), ..RawOptions::default() };
        // The sink's open installs the TLS provider that building a client needs.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { url, options, under: Under::S3(Arc::new(client.build().unwrap())) }
    }

    pub async fn sink(&self) -> RawSink {
        RawSink::open(&self.url, &self.options).await.unwrap()
    }

    /// A sink whose every compressed chunk (1 MiB of lines) makes a part.
    pub async fn sink_of_small_parts(&self) -> RawSink {
        RawSink::open(&self.url, &RawOptions { part_bytes: 1, ..self.options.clone() }).await.unwrap()
    }

    pub fn root(&self) -> PathBuf {
        match &self.under {
            Under::Files(dir) => dir.path().join("my raw%20"),
            Under::S3(_) => panic!("no directory"),
        }
    }

    /// The names of all objects below the sink's base, as they lie there.
    pub async fn objects(&self) -> Vec<String> {
        let mut names = match &self.under {
            Under::Files(_) => files_below(&self.root()),
            Under::S3(client) => {
                let all = client.list(None).map_ok(|object| object.location.to_string());
                let all: Vec<String> = all.try_collect().await.unwrap();
                all.iter()
                    .map(|name| name.strip_prefix("lake/raw/").expect("all lies below the prefix").to_owned())
                    .collect()
            }
        };
        names.sort();
        names
    }

    pub async fn read(&self, name: &str) -> Vec<u8> {
        match &self.under {
            Under::Files(_) => std::fs::read(self.root().join(name)).unwrap(),
            Under::S3(client) => client.get(&in_bucket(name)).await.unwrap().bytes().await.unwrap().to_vec(),
        }
    }

    pub async fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        match &self.under {
            Under::Files(_) => std::fs::write(self.root().join(name), bytes).unwrap(),
            Under::S3(client) => drop(client.put(&in_bucket(name), bytes.into()).await.unwrap()),
        }
    }

    pub async fn remove(&self, name: &str) {
        match &self.under {
            Under::Files(_) => std::fs::remove_file(self.root().join(name)).unwrap(),
            Under::S3(client) => client.delete(&in_bucket(name)).await.unwrap(),
        }
    }
}

pub fn settings(bucket: &Bucket) -> S3Options {
    S3Options::from_vars([
        ("AWS_ENDPOINT_URL", bucket.endpoint.as_str()),
        ("AWS_REGION", &bucket.region),
        ("AWS_ACCESS_KEY_ID", &bucket.access_key),
        ("AWS_SECRET_ACCESS_KEY", &bucket.secret_key),
        ("AWS_ALLOW_HTTP", "true"),
    ])
}

fn in_bucket(name: &str) -> Path {
    Path::parse(format!("{PREFIX}/{name}")).unwrap()
}

fn files_below(dir: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(files_below(&entry.path()).iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names
}

pub fn key(customer: &str) -> PartitionKey {
    PartitionKey::new("ads", customer, "campaign_daily", "2026-01-31").unwrap()
}

/// The `n`th attempt at a partition.
pub fn attempt(key: &PartitionKey, n: u32) -> RunHeader {
    RunHeader {
        key: key.clone(),
        run_id: format!("019a0000-0000-7000-8000-{n:012}").parse().unwrap(),
        fence: format!("019a0000-0000-7000-9000-{n:012}").parse().unwrap(),
        extractor: "sample".to_owned(),
        started_at: Timestamp::from_micros(1_000_000),
    }
}

pub fn later() -> Timestamp {
    Timestamp::from_micros(2_000_000)
}

/// Writes a whole attempt.
pub async fn write(sink: &RawSink, attempt: RunHeader, lines: &[&str]) -> Result<Manifest, redrive_store::raw::Error> {
    let mut writer = sink.begin(attempt);
    for line in lines {
        writer.write_line(line.as_bytes()).await?;
    }
    writer.finish(RunOutcome::Complete, later()).await
}

pub async fn lines(view: &RawView, manifest: &Manifest) -> Vec<String> {
    view.lines(manifest).map(|line| String::from_utf8(line.unwrap().to_vec()).unwrap()).collect().await
}

/// A line of about `length` bytes, different for every `n`, that compresses to no less than half.
pub fn long_line(n: usize, length: usize) -> String {
    // Longer than what the compressor looks back over, so that going round does not repeat anything for it.
    static NOISE: LazyLock<String> = LazyLock::new(|| {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let digits = std::iter::repeat_with(move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            format!("{seed:016x}")
        });
        digits.take(256 << 10).collect()
    });
    let from = (n * length) % NOISE.len();
    let pad: String = NOISE[from..].chars().chain(NOISE.chars().cycle()).take(length).collect();
    format!("{{\"n\":{n},\"pad\":\"{pad}\"}}")
}
