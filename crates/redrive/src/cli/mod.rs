//! The command line as it is written. Flags are parsed here and resolved once, in each command.

mod holds;
mod ingest;
mod one_of;
mod runs;
mod state;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::output::terminal::Screen;
pub use holds::*;
pub use ingest::*;
pub use one_of::OneOf;
pub use runs::*;
pub use state::*;

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
    /// How the log on stderr is written; json is an object a line
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// When to colour what people read; NO_COLOR is heeded without it
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto)]
    pub color: ColorWhen,
    /// What tables are printed on.
    #[arg(skip)]
    pub screen: Screen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
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
    /// Say what needs a person, and how everything stands
    Status(Status),
    /// Check configuration, database and raw sink, and say what is wrong
    Doctor(Doctor),
    /// Look at partitions and decide what happens to them
    #[command(subcommand)]
    State(Box<State>),
    /// Upload configuration archives, and look at what is in them
    #[command(subcommand)]
    Ingest(Ingest),
    /// Submit jobs, look at runs of every kind, and decide what happens to them
    #[command(subcommand)]
    Runs(Box<Runs>),
    /// Read what succeeded: only the current run of each partition
    #[command(subcommand)]
    Data(Data),
    /// Requeue failures when their backoff has passed, and want what calendars expect
    Daemon(Daemon),
    /// Do what is wanted: extract partitions, parse uploads, handle jobs
    Worker(Worker),
    /// Serve the HTTP API, with a worker and a daemon in the same process
    Serve(Serve),
    /// Make, list and revoke the tokens that callers of the server sign in with
    #[command(subcommand)]
    Token(Token),
    /// List notifications, and send a test to their receivers
    #[command(subcommand)]
    Notify(Notify),
    /// Measure this machine
    #[command(subcommand)]
    Bench(redrive_bench::Bench),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a directory
    Man {
        /// Where to; made where it is missing
        directory: PathBuf,
    },
}

impl Command {
    /// Whether it goes on until it is stopped, and so has a log instead of a report.
    pub fn is_service(&self) -> bool {
        match self {
            Self::Daemon(_) | Self::Serve(_) => true,
            Self::Worker(worker) => !worker.drain,
            Self::Init(_)
            | Self::Demo(_)
            | Self::Migrate
            | Self::Status(_)
            | Self::Doctor(_)
            | Self::State(_)
            | Self::Runs(_)
            | Self::Data(_)
            | Self::Ingest(_)
            | Self::Token(_)
            | Self::Notify(_)
            | Self::Bench(_)
            | Self::Completions { .. }
            | Self::Man { .. } => false,
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
    /// Take the configured raw sink for this database's, whatever it is
    #[arg(long, conflicts_with_all = ["store", "force"])]
    pub adopt_sink: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Where to [default: redrive-demo, or redrive-demo-2 and so on where there is one]
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive status
  redrive status --source ads --watch
  redrive status -o json | jq '.needs_attention[].command'

Counts stop at 10,000, so that the answer comes at once; what says `≥ 10,000` may be more. In JSON such counts are named in
`at_least`. Queued are also successes that were asked for again. Missing is what a calendar of this configuration expects.
CSV has what needs a person.")]
pub struct Status {
    /// Only this source
    #[arg(long)]
    pub source: Option<String>,
    /// Look again every two seconds, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
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
    /// What this attempt brought, accepted or not; the beginning of its id serves
    #[arg(long, value_name = "RUN", conflicts_with = "all")]
    pub run: Option<String>,
    /// With --run: what the attempt's programs wrote on stderr, as far as it was kept, instead of the records
    #[arg(long, requires = "run")]
    pub stderr: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, Subcommand)]
pub enum Notify {
    /// Send a test to the receivers of the configuration, and say what each answered
    #[command(after_help = "\
Examples:
  redrive notify test
  redrive notify test on-call

A test goes past the outbox, whatever events and sources a receiver asks for, and is sent once.")]
    Test {
        /// Only this receiver
        name: Option<String>,
    },
    /// List notifications, newest first, and which receivers have them
    #[command(after_help = "\
Examples:
  redrive notify list
  redrive notify list -o json | jq '.notifications[].deliveries[] | select(.delivered_at == null)'")]
    List {
        /// How many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive daemon
  redrive daemon --once --dry-run
  redrive daemon --metrics 127.0.0.1:9465")]
pub struct Daemon {
    /// One tick, and out
    #[arg(long)]
    pub once: bool,
    /// Say what a tick would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How long to sleep between ticks [default: daemon.interval]
    #[arg(long, value_name = "DURATION", value_parser = redrive_data::settings::duration::parse)]
    pub interval: Option<std::time::Duration>,
    /// Show /metrics and /healthz there [default without an address: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = METRICS)]
    #[arg(conflicts_with_all = ["once", "dry_run"])]
    pub metrics: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive serve
  redrive serve --listen 127.0.0.1:8080 --no-worker
  redrive serve --read-only --no-worker --no-daemon
  curl http://127.0.0.1:7117/v1/status

On a loopback address no token is needed: who can reach it can act. On any other one everybody signs in, with a token of
`redrive token create` or by way of [server.forward_auth]; --insecure starts without either, and prints a link for the first
sign-in. SIGHUP reads the configuration again; what [server] says is read once, at the start.")]
pub struct Serve {
    /// Where to listen; the port 0 takes any that is free [default: server.listen]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Start no worker
    #[arg(long)]
    pub no_worker: bool,
    /// Start no daemon
    #[arg(long)]
    pub no_daemon: bool,
    /// Refuse every request that would change something
    #[arg(long)]
    pub read_only: bool,
    /// Listen on an address that others can reach although there is no token yet
    #[arg(long)]
    pub insecure: bool,
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token; it is shown this once
    Create(TokenCreate),
    /// List tokens, the newest first
    List,
    /// End a token, and what was signed in with it
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive token create --name ci-nightly --role operator --expires 30d
  redrive token create --name replays --role worker --expires 90d --category any% --category 100%
  curl -H \"Authorization: Bearer $(redrive token create --name me --role viewer --expires 1d -q)\" …

viewer reads, without payloads and raw data; operator reads and acts; admin may also hold whole sources and use force; worker
claims jobs and says what became of them. The audit trail calls the holder token:NAME.")]
pub struct TokenCreate {
    /// What the audit trail calls its holder
    #[arg(long)]
    pub name: String,
    /// viewer, operator, admin or worker
    #[arg(long)]
    pub role: redrive_core::role::Role,
    /// How long it counts: 30d, 12h
    #[arg(long, value_name = "DURATION", value_parser = redrive_data::settings::duration::parse)]
    pub expires: std::time::Duration,
    /// For a worker: only jobs of this category; more than once for several
    #[arg(long, value_name = "CATEGORY")]
    pub category: Vec<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive worker
  redrive worker --workload extract --source ads --source crm --concurrency 4
  redrive worker --drain
  redrive worker --metrics 127.0.0.1:9464

A drain ends with 0 when nothing is due any more, with 1 when it left what is due: a source cannot be used here, or a section
could not be asked for new jobs. Failures are listed by cause, with what to type next.")]
pub struct Worker {
    /// What kinds of work to do [default: all that is configured]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// Of partitions, extract only those of this source; more than once for several [default: all that are configured]
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// Of jobs, do only those of this category; more than once for several [default: all that process sections name]
    #[arg(long, value_name = "CATEGORY")]
    pub category: Vec<String>,
    /// How much to do at once [default: worker.concurrency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub concurrency: Option<u32>,
    /// End when nothing is due
    #[arg(long)]
    pub drain: bool,
    /// Show /metrics and /healthz there [default without an address: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = METRICS)]
    pub metrics: Option<String>,
}

/// Where a worker and a daemon show their metrics unless told otherwise.
const METRICS: &str = "127.0.0.1:9464";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Extract,
    Ingest,
    Process,
}
