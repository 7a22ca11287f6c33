//! The flags of `redrive runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use redrive_core::failure::ErrorClass;
use redrive_core::run::{State, Workload};

use super::one_of::OneOf;
use super::state::ChangeArgs;

#[derive(Debug, Subcommand)]
pub enum Runs {
    /// Submit a job, or many
    Submit(Submit),
    /// List runs, the newest submission first
    List(RunList),
    /// Show one run
    #[command(after_help = "\
Examples:
  redrive runs show 019a8f00
  redrive runs show 019a8f00 --history
  redrive runs show 019a8f00 -o json | jq .next_retry_at")]
    Show(RunShow),
    /// Count what is failed now by its causes
    Groups(RunGroups),
    /// Say why a run is not running now
    #[command(after_help = "\
Examples:
  redrive runs explain 019a8f00")]
    Explain(RunArg),
    /// Try runs again that are dead or wait after a failure, with a fresh count
    Retry(RunChange),
    /// Stop runs for good; where one is running, its handler is stopped
    Cancel(RunChange),
    /// Forget runs that ended long ago
    Prune(Prune),
    /// Ask an outside worker to take on nothing more, or to go on
    Drain(Drain),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs submit --category any% --payload '{\"run\": 4711}' --external-id 4711
  redrive runs submit --jsonl jobs.jsonl
  find-jobs | redrive runs submit --jsonl - --category any% -o jsonl

Each line of a JSON lines file is one job:
  {\"category\":\"any%\",\"payload\":{\"run\":4711},\"external_id\":\"4711\"}
Its fields are category, payload, external_id, submitted_at, not_before and max_attempts; only category is needed.
A job whose external_id was submitted before is not submitted again: its run of that time is given (existing: true).
So a file can be submitted twice.")]
pub struct Submit {
    /// Many jobs, one JSON object a line; `-` reads them from stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "external_id", "submitted_at", "not_before", "max_attempts"])]
    pub jsonl: Option<PathBuf>,
    /// Which section of the configuration serves it; with --jsonl, for lines that name none
    #[arg(long, required_unless_present = "jsonl")]
    pub category: Option<String>,
    /// What its handler is given: any JSON, at most 1 MiB
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    /// By which it is known again: submitting it twice gives the first one back
    #[arg(long, value_name = "ID")]
    pub external_id: Option<String>,
    /// When it was submitted, which decides its turn [default: now]
    #[arg(long, value_name = "TIME")]
    pub submitted_at: Option<String>,
    /// No worker starts it before: a time, or a span from now like `10m`
    #[arg(long, value_name = "TIME")]
    pub not_before: Option<String>,
    /// How many attempts it has [default: its section's]
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u32>,
}

/// Which runs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct RunFilterArgs {
    /// What kind of work
    #[arg(long, value_parser = OneOf::new(Workload::ALL.iter().map(|word| word.as_str())))]
    pub workload: Option<String>,
    /// Jobs of this category; more than once for several
    #[arg(long)]
    pub category: Vec<String>,
    /// Where they stand now; more than once for several
    #[arg(long, value_parser = OneOf::new(State::ALL.iter().map(|word| word.as_str())))]
    pub state: Vec<String>,
    /// What their last error was
    #[arg(long, value_parser = OneOf::new(ErrorClass::ALL.iter().map(|word| word.as_str())))]
    pub error_class: Option<String>,
    /// Failed now, of this failure group; `runs groups` lists them
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Submitted then or later: a day, a time, or days ago like `7d`
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Submitted on that day at the latest, or before that time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs list --category any% --state waiting
  redrive runs list --state dead --since 7d --limit 0 -o jsonl")]
pub struct RunList {
    #[command(flatten)]
    pub filter: RunFilterArgs,
    /// How many at the most; 0 for all
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs groups --category any%
  redrive runs list --group 1eac255fa26d

A group is what failures have in common once ids, numbers, times, addresses and quoted parts are folded. Counted is what
waits after a failure, and what is dead by one.")]
pub struct RunGroups {
    #[command(flatten)]
    pub filter: RunFilterArgs,
    /// How many groups at the most, the largest first; 0 for all
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs prune --older-than 90d --dry-run
  redrive runs prune --older-than 30d --category any% --reason 'disk is full'

The daemon does the same for sections with `keep`. What is queued, running or waiting stays, and so does a job whose
external id was submitted, or submitted again, since an hour before that. What is forgotten cannot be brought back.")]
pub struct Prune {
    /// Forget what ended longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = redrive_data::settings::duration::parse)]
    pub older_than: std::time::Duration,
    /// Only jobs of this category; more than once for several
    #[arg(long)]
    pub category: Vec<String>,
    /// Say how many there are, and forget none
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
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs retry 019a8f00-1111
  redrive runs retry --group 1eac255fa26d --reason 'the token is mended'
  redrive runs retry --category any% --state dead
  redrive runs cancel --category any% --state queued --dry-run --save-plan plan.json

Without --state, a retry takes dead runs and those that wait after a failure: these start at once, whatever backoff or rate limit
they wait for. A cancel takes all that have not ended.
`redrive state undo` puts back what either did, where nothing has happened since; `redrive state apply` acts on a saved plan.")]
pub struct RunChange {
    /// Runs by their ids, or unambiguous beginnings of them
    #[arg(value_name = "ID", conflicts_with_all = ["workload", "category", "state", "error_class", "group", "since", "until"])]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub filter: RunFilterArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive runs drain py-7 --reason 'its machine is replaced'
  redrive runs drain py-7 --resume

Every answer to the worker says so, until it is told to go on. What it has, it ends. `redrive status` lists the workers.")]
pub struct Drain {
    /// What the worker calls itself
    pub worker: String,
    /// Let it go on
    #[arg(long)]
    pub resume: bool,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct RunShow {
    #[command(flatten)]
    pub run: RunArg,
    /// With every failed try, every delivery that was lost, and every result that came too late
    #[arg(long)]
    pub history: bool,
}

#[derive(Debug, Clone, Args)]
pub struct RunArg {
    /// The run's id, or an unambiguous beginning of it
    #[arg(value_name = "ID")]
    pub id: String,
}
