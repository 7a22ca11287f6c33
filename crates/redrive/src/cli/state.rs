//! The flags of `redrive state`, and the filters that other commands share with it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use redrive_core::failure::ErrorClass;
use redrive_core::partition::Status;
use redrive_store::{Head, NotAHead};

use super::holds::{Cooldown, Hold};
use super::one_of::OneOf;

/// Which partitions; exact values only. The first three may be given more than once.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    /// Of this source; more than once for several
    #[arg(long)]
    pub source: Vec<String>,
    /// Of this customer; more than once for several
    #[arg(long)]
    pub customer_id: Vec<String>,
    /// Of this query; more than once for several
    #[arg(long)]
    pub query_name: Vec<String>,
    /// One day: YYYY-MM-DD, `today`, `yesterday`, or days ago like `7d`
    #[arg(long, value_name = "DATE", conflicts_with_all = ["since", "until"])]
    pub logical_date: Option<String>,
    /// The first day
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// The last day
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// As they are now
    #[arg(long, value_parser = OneOf::new(Status::ALL.iter().map(|word| word.as_str())))]
    pub status: Option<String>,
    /// What their last error was
    #[arg(long, value_parser = OneOf::new(ErrorClass::ALL.iter().map(|word| word.as_str())))]
    pub error_class: Option<String>,
    /// Failed now, of this failure group; an unambiguous beginning of its id serves
    #[arg(long, value_name = "ID")]
    pub group: Option<String>,
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
    /// With --dry-run: keep what would change in the database for a day, for `state apply` by its id
    #[arg(long, requires = "dry_run", conflicts_with = "save_plan")]
    pub keep_plan: bool,
}

#[derive(Debug, Subcommand)]
pub enum State {
    /// Show partitions as they are now
    #[command(after_help = "\
Examples:
  redrive state inspect --source ads --since 7d --status failed
  redrive state inspect --source ads --customer-id 111 --query-name daily --logical-date 2026-01-31 --history
  redrive state inspect --missing -o csv")]
    Inspect(Inspect),
    /// Count what is failed now by its causes
    Groups(Groups),
    /// Say why a partition is not running now
    #[command(after_help = "\
Examples:
  redrive state explain --source ads --customer-id 111 --query-name daily --logical-date yesterday")]
    Explain(KeyArgs),
    /// Requeue failed partitions
    Retry(Retry),
    /// Ask for a new run of successes, which stay until it is accepted
    Reprocess(Reprocess),
    /// Want a range of history
    #[command(subcommand)]
    Backfill(Backfill),
    /// Stop retries of failed partitions that have used up their attempts
    #[command(after_help = "\
Examples:
  redrive state mark-terminal --source ads --customer-id 111 --reason 'the account is closed'")]
    MarkTerminal(FilteredChange),
    /// Take the terminal mark off again
    #[command(after_help = "\
Examples:
  redrive state clear-terminal --source ads --customer-id 111

`redrive state retry --clear-terminal` takes it off and tries again at once.")]
    ClearTerminal(FilteredChange),
    /// Withhold partitions from workers and retries
    #[command(after_help = "\
Examples:
  redrive state pause --source ads --query-name campaign_daily --since 7d --reason 'the report changes'

What is still to come is not paused; `redrive state hold set` withholds it too.")]
    Pause(FilteredChange),
    /// Let paused partitions go on
    #[command(after_help = "\
Examples:
  redrive state resume --source ads --query-name campaign_daily")]
    Resume(FilteredChange),
    /// List terminal failures, by mark and by policy
    #[command(after_help = "\
Examples:
  redrive state terminal --source ads
  redrive state terminal -o jsonl | jq .error_message")]
    Terminal(Terminal),
    /// Act on a saved plan, and on nothing else
    #[command(after_help = "\
Examples:
  redrive state retry --group 1eac --dry-run --save-plan plan.json
  redrive state apply plan.json --yes
  redrive state retry --group 1eac --dry-run --keep-plan
  redrive state apply 019a8f00 --yes

A plan that is kept in the database is the server's too: whoever applies it first does, and nobody else.")]
    Apply(Apply),
    /// Put back what an operation changed, where nothing has happened since
    #[command(after_help = "\
Examples:
  redrive state undo last
  redrive state undo 019a8f00 --dry-run")]
    Undo(Undo),
    /// Withhold a source, a customer or a query from workers
    #[command(subcommand)]
    Hold(Hold),
    /// Whom sources asked to leave alone for a while: the holds of that kind
    #[command(subcommand)]
    Cooldown(Cooldown),
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

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive state groups --source ads
  redrive state retry --group 1eac --reason 'the token is mended'

A group is what failures have in common once ids, numbers, times, addresses and quoted parts are folded. Counted are
partitions that are failed now: what was retried or has succeeded since is not among them.")]
pub struct Groups {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How many groups at the most, the largest first; 0 for all
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
#[command(after_help = "\
Examples:
  redrive state retry --group 1eac --reason 'the token is mended'
  redrive state retry --source ads --since 7d --error-class retryable --dry-run
  redrive state retry --group 1eac --limit 12     a canary; its report says how to go on
  redrive state retry --source ads --grant 3 --yes

A partition is not tried again by itself once its attempts are those of `max_attempts`. --grant gives it further ones: its
attempt_count goes on, and what was granted is taken off before the policy looks at it. A terminal mark and `max_age` stand
whatever is granted; --clear-terminal passes them.")]
pub struct Retry {
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Also terminal ones: takes the mark off and, where their attempts are used up, grants one
    #[arg(long)]
    pub clear_terminal: bool,
    /// Also those whose attempts are used up: grants so many further ones; `full` is as many as max_attempts
    #[arg(long, value_name = "N|full")]
    pub grant: Option<redrive_core::retry::Grant>,
    /// Only the first N that change, in key order: a canary; says how many more there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Also those that have left nothing in the raw sink
    #[arg(long)]
    pub allow_missing_raw: bool,
    /// Also pending ones that are not in flight
    #[arg(long)]
    pub stale: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive state reprocess --source ads --query-name campaign_daily --since 30d --reason 'a column was added'
  redrive state reprocess --source ads --withdraw

Consumers read the success that is there until the validator accepts a new run. A new run that is rejected leaves it, and is tried
again under the source's retry policy until it is accepted, its attempts are used up, or the request is withdrawn.")]
pub struct Reprocess {
    #[command(flatten)]
    pub changed: FilteredChange,
    /// Take requests back that are queued, or whose last attempt was rejected; the successes stay as they are
    #[arg(long)]
    pub withdraw: bool,
}

#[derive(Debug, Subcommand)]
pub enum Backfill {
    /// Want a partition for every day of a range
    #[command(after_help = "\
Examples:
  redrive state backfill enqueue --source ads --since 2026-01-01 --until 2026-01-31 --reason 'new customer'
  redrive state backfill enqueue --source ads --customer-id 111 --customer-id 222 --logical-date yesterday --dry-run")]
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
    /// The plan's file; or the id of a plan that the database keeps, or an unambiguous beginning of it
    pub plan: String,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Clone, Args)]
pub struct Undo {
    /// The operation's id, as `state audit list` shows it, or the beginning of it; `last` is your own newest one
    pub operation: String,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Operations, newest first
    #[command(after_help = "\
Examples:
  redrive state audit list --since 7d --operation retry
  redrive state audit list --actor ada@desk -o jsonl")]
    List(AuditList),
    /// One operation with every change
    #[command(after_help = "\
Examples:
  redrive state audit show last
  redrive state audit show 019a8f00 -o json")]
    Show {
        /// Its id or the beginning of it; `last` is your own newest one
        operation: String,
    },
    /// Print where the chain ends, to be kept outside of the database
    #[command(after_help = "\
Examples:
  redrive state audit head >> /srv/elsewhere/audit-heads")]
    Head,
    /// Check the chain from its first row
    #[command(after_help = "\
Examples:
  redrive state audit verify
  redrive state audit verify --head \"$(tail -n 1 /srv/elsewhere/audit-heads)\"")]
    Verify {
        /// A head that was printed or logged before: it must still be in the chain
        #[arg(long, value_name = "SEQ:HASH", value_parser = head)]
        head: Option<Head>,
    },
}

fn head(text: &str) -> Result<Head, String> {
    text.parse().map_err(|error: NotAHead| format!("{error}; `redrive state audit head` prints one"))
}

#[derive(Debug, Clone, Args)]
pub struct AuditList {
    /// Only by this actor, as the list shows it
    #[arg(long)]
    pub actor: Option<String>,
    /// Only from this day or moment on: 2026-01-31, `yesterday`, `7d`, or 2026-01-31T04:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only of this kind: a word of the command, such as retry, pause or undo
    #[arg(long, value_name = "VERB")]
    pub operation: Option<String>,
    /// How many at the most; 0 for all
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
}
