//! The flags of `redrive bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// No-op runs: enqueue, drain (claim and complete, durably), and pickup when idle
    Queue(BenchQueue),
    /// Bulk retry with audit, a page of inspect, and the selection of what is due
    State(BenchState),
    /// JSON lines from a program into the raw sink, and through the validator; or many small partitions
    Extract(BenchExtract),
    /// Parsing the configuration files of a folder and of the archives in it, also all the way into a database
    Conf(BenchConf),
}

#[derive(Debug, Clone, Args)]
pub struct BenchConf {
    /// A folder with archives or configuration files
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Also parse the same files with ksconf, insert the same rows by a bare loop, and print the ratios
    #[arg(long)]
    pub baseline: bool,
    /// The database to measure; a scratch file or schema is made beside it [default: store.url]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// With --baseline: a Python in which ksconf is installed [default: that of ksconf in the PATH, or of $KSCONF; or python3]
    #[arg(long, value_name = "PATH", requires = "baseline")]
    pub python: Option<PathBuf>,
    /// With --baseline: the ksconf program whose Python is used
    #[arg(long, value_name = "PATH", env = "KSCONF", hide = true)]
    pub ksconf: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct BenchExtract {
    /// How much
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub megabytes: u64,
    /// Instead, have a worker drain so many small partitions into a durable sink in a scratch folder here
    #[arg(long, value_name = "N", conflicts_with = "megabytes", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub partitions: Option<u32>,
    /// Also compress the same bytes with nothing but zstd, or make and sync the same files, and print the ratio
    #[arg(long)]
    pub baseline: bool,
    /// With --partitions: the database to measure; a scratch file or schema is made beside it [default: store.url]
    #[arg(long, value_name = "URL", requires = "partitions")]
    pub store: Option<String>,
    /// With --partitions: measure a database that holds another program's tables
    #[arg(long, requires = "partitions")]
    pub force: bool,
    /// With --partitions: how many to work on at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub concurrency: u32,
    /// With --partitions: the program whose worker is measured [default: this one]
    #[arg(long, value_name = "PATH", requires = "partitions")]
    pub program: Option<PathBuf>,
    /// With --partitions: another build of the program, whose worker takes turns with the first one's
    #[arg(long, value_name = "PATH", requires = "partitions")]
    pub beside: Option<PathBuf>,
    /// With --partitions: how many turns each takes; the medians are shown
    #[arg(long, value_name = "N", default_value_t = 1, requires = "partitions", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

#[derive(Debug, Clone, Args)]
pub struct BenchCommon {
    /// The database to measure; a scratch file or schema is made beside it [default: store.url]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Also run a hand-written loop of the same statements, and print the ratio
    #[arg(long)]
    pub baseline: bool,
    /// Measure a database that holds another program's tables
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Args)]
pub struct BenchQueue {
    #[command(flatten)]
    pub common: BenchCommon,
    /// How many runs
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub jobs: u32,
    /// How many runs a worker claims and completes at once
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// How many workers, each with its own connection
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// Also drain as many runs with a whole worker, whose handler is Rust code that passes every job
    #[arg(long)]
    pub worker: bool,
    /// Also run so many short commands through a whole worker, and as many with xargs, 16 at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub commands: Option<u32>,
    /// How often to measure the pickup of a single run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pickups: u32,
    /// Also have 64 callers submit so many single runs each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub singles: Option<u32>,
    /// Also measure what a claim costs beside so many finished runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub history: Option<u32>,
    /// With --history: how many runs also wait for their time
    #[arg(long, value_name = "N", default_value_t = 0, requires = "history", value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub waiting: u32,
}

#[derive(Debug, Clone, Args)]
pub struct BenchState {
    #[command(flatten)]
    pub common: BenchCommon,
    /// How many failed partitions to retry
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub partitions: u32,
    /// How many failed partitions the table holds [default: as many as are retried]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub failed: Option<u32>,
    /// How many partitions the table holds in all [default: ten times the failed ones]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub rows: Option<u32>,
    /// How many of the failed ones are due
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub due: u32,
}
