//! The command line as it is written. Flags are parsed here and resolved once, in each command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Retry and reprocessing control plane for data ingestion.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The configuration file [default: redrive.toml if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to print what is found
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Say only what is asked for
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Jsonl,
    Csv,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a redrive.toml and make the database
    Init(Init),
    /// Show the main job in one command, on a made-up source in a folder of its own
    Demo(Demo),
    /// Bring the database's schema up to date
    Migrate,
    /// Check configuration, database and raw sink, and say what is wrong
    Doctor(Doctor),
    /// Look at partitions and decide what happens to them
    #[command(subcommand)]
    State(Box<State>),
    /// Read what succeeded: only the current run of each partition
    #[command(subcommand)]
    Data(Data),
    /// Requeue failures when their backoff has passed, and want what calendars expect
    Daemon(Daemon),
    /// Extract what is wanted, and have it judged
    Worker(Worker),
    /// Measure this machine
    #[command(subcommand)]
    Bench(Bench),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
}

impl Command {
    /// Whether it goes on until it is stopped, and so has a log instead of a report.
    pub fn is_service(&self) -> bool {
        match self {
            Self::Daemon(_) => true,
            Self::Worker(worker) => !worker.drain,
            Self::Init(_)
            | Self::Demo(_)
            | Self::Migrate
            | Self::Doctor(_)
            | Self::State(_)
            | Self::Data(_)
            | Self::Bench(_)
            | Self::Completions { .. } => false,
        }
    }
}

#[derive(Debug, Args)]
pub struct Init {
    /// Where to [default: here]
    pub directory: Option<PathBuf>,
    /// The database to use
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Replace a redrive.toml that is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Where to [default: redrive-demo]
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// Leave the parts in the raw sink unread: only look whether they are there
    #[arg(long)]
    pub quick: bool,
}

#[derive(Debug, Subcommand)]
pub enum Data {
    /// List what can be read, in key order
    Ls(DataLs),
    /// Print the records, one JSON value a line, exactly as they came
    Cat(DataCat),
}

#[derive(Debug, Clone, Args)]
pub struct DataLs {
    /// Print nothing but the part files, one path or s3:// URL a line
    #[arg(long)]
    pub paths: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, Clone, Args)]
pub struct DataCat {
    /// Everything there is, when no filter is given
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// No-op runs: enqueue, drain (claim and complete, durably), and pickup when idle
    Queue(BenchQueue),
    /// Bulk retry with audit, a page of inspect, and the selection of what is due
    State(BenchState),
    /// JSON lines from a program into the raw sink, and through the validator
    Extract(BenchExtract),
}

#[derive(Debug, Clone, Args)]
pub struct BenchExtract {
    /// How much
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub megabytes: u64,
    /// Also compress the same bytes with nothing but zstd, and print the ratio
    #[arg(long)]
    pub baseline: bool,
}

#[derive(Debug, Clone, Args)]
pub struct BenchCommon {
    /// The database to measure; a scratch file or schema is made beside it [default: store.url]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Also run a hand-written loop of the same statements, and print the ratio
    #[arg(long)]
    pub baseline: bool,
    /// Measure a database that holds something else's tables
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
    /// How often to measure the pickup of a single run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pickups: u32,
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

/// Which partitions; exact values only.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    #[arg(long)]
    pub source: Option<String>,
    #[arg(long)]
    pub customer_id: Option<String>,
    #[arg(long)]
    pub query_name: Option<String>,
    /// One day: YYYY-MM-DD, `today`, `yesterday`, or days ago like `7d`
    #[arg(long, value_name = "DATE", conflicts_with_all = ["since", "until"])]
    pub logical_date: Option<String>,
    /// The first day
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// The last day
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// pending, success or failed
    #[arg(long)]
    pub status: Option<String>,
    /// final, retryable or rate_limited
    #[arg(long)]
    pub error_class: Option<String>,
}

/// One partition, by its four values.
#[derive(Debug, Clone, Args)]
pub struct KeyArgs {
    #[arg(long)]
    pub source: String,
    #[arg(long)]
    pub customer_id: String,
    #[arg(long)]
    pub query_name: String,
    #[arg(long, value_name = "DATE")]
    pub logical_date: String,
}

/// How sure, and why.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Safety")]
pub struct ChangeArgs {
    /// List what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Answer questions with yes, up to the hard limit
    #[arg(short, long)]
    pub yes: bool,
    /// No questions and no limit
    #[arg(long)]
    pub force: bool,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// With --dry-run: write what would change to a file for `state apply`
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub save_plan: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum State {
    /// Show partitions as they are now
    Inspect(Inspect),
    /// Say why a partition is not running now
    Explain(KeyArgs),
    /// Requeue failed partitions
    Retry(Retry),
    /// Ask for a new run of successes, which stay until it is accepted
    Reprocess(FilteredChange),
    /// Want a range of history
    #[command(subcommand)]
    Backfill(Backfill),
    /// Stop retries of failed partitions that have used up their attempts
    MarkTerminal(FilteredChange),
    /// Take the terminal mark off again
    ClearTerminal(FilteredChange),
    /// Withhold partitions from workers and retries
    Pause(FilteredChange),
    /// Let paused partitions go on
    Resume(FilteredChange),
    /// List terminal failures, by mark and by policy
    Terminal(Terminal),
    /// Act on a saved plan, and on nothing else
    Apply(Apply),
    /// Put back what an operation changed, where nothing has happened since
    Undo(Undo),
    /// Who did what, and whether the trail is whole
    #[command(subcommand)]
    Audit(Audit),
}

#[derive(Debug, Clone, Args)]
pub struct Inspect {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only terminal failures, by mark or by policy
    #[arg(long)]
    pub terminal: bool,
    /// Only paused partitions
    #[arg(long)]
    pub paused: bool,
    /// Expected partitions that are not there
    #[arg(long, conflicts_with_all = ["terminal", "paused", "history", "group_by"])]
    pub missing: bool,
    /// With every attempt
    #[arg(long)]
    pub history: bool,
    /// Count by error instead of listing
    #[arg(long, value_enum, conflicts_with = "history")]
    pub group_by: Option<GroupBy>,
    /// How many at the most; 0 for all
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
    Error,
}

#[derive(Debug, Clone, Args)]
pub struct Terminal {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How many at the most; 0 for all
    #[arg(long, default_value_t = 0)]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
pub struct FilteredChange {
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Clone, Args)]
pub struct Retry {
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Also terminal ones: takes the mark off, and grants one attempt past the policy
    #[arg(long)]
    pub clear_terminal: bool,
    /// Also those that have left nothing in the raw sink
    #[arg(long)]
    pub allow_missing_raw: bool,
    /// Also pending ones that are not in flight
    #[arg(long)]
    pub stale: bool,
}

#[derive(Debug, Subcommand)]
pub enum Backfill {
    /// Want a partition for every day of a range
    Enqueue(BackfillEnqueue),
}

#[derive(Debug, Clone, Args)]
pub struct BackfillEnqueue {
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Also set what is there and finished to pending
    #[arg(long)]
    pub force_pending: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Apply {
    /// The plan's file
    pub plan: PathBuf,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Clone, Args)]
pub struct Undo {
    /// The operation's id, as `state audit list` shows it
    pub operation: String,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Operations, newest first
    List {
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One operation with every change
    Show { operation: String },
    /// Check the chain from its first row
    Verify,
}

#[derive(Debug, Clone, Args)]
pub struct Daemon {
    /// One tick, and out
    #[arg(long)]
    pub once: bool,
    /// Say what a tick would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How long to sleep between ticks [default: daemon.interval]
    #[arg(long, value_name = "DURATION", value_parser = redrive_core::duration::parse)]
    pub interval: Option<std::time::Duration>,
}

#[derive(Debug, Clone, Args)]
pub struct Worker {
    /// What kinds of work to do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "extract")]
    pub workload: Vec<Workload>,
    /// How much to do at once [default: worker.concurrency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub concurrency: Option<u32>,
    /// End when nothing is due
    #[arg(long)]
    pub drain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Extract,
}
