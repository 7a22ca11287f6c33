//! Holds and cooldowns on the command line.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Cooldown {
    /// Who is left alone, until when, and why
    #[command(after_help = "\
Examples:
  redrive state cooldown list")]
    List,
    /// Say that it is over: workers and the daemon go on at once
    #[command(after_help = "\
Examples:
  redrive state cooldown lift --source ads --customer-id 111")]
    Lift(HoldLift),
}

#[derive(Debug, Subcommand)]
pub enum Hold {
    /// Withhold a source, a customer or a query from workers, with what is queued and what is still to come
    #[command(after_help = "\
Examples:
  redrive state hold set --source ads --for 2h --reason 'maintenance at the source'
  redrive state hold set --source ads --customer-id 111 --customer-id 222 --reason 'the contracts are being checked'

Several values give a hold for each combination, all by one operation that `redrive state undo` takes back.")]
    Set(HoldSet),
    /// What is held, by whom, until when, and why
    #[command(after_help = "\
Examples:
  redrive state hold list
  redrive state hold list -o json | jq '.holds[].why'")]
    List,
    /// End all holds on a source, a customer or a query, whoever set them: workers and the daemon go on at once
    #[command(after_help = "\
Examples:
  redrive state hold lift --source ads --source crm --reason 'the sources are well again'")]
    Lift(HoldLift),
}

/// What holds are on: every combination of what is given.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Scope")]
pub struct ScopeArgs {
    /// This source; more than once for several
    #[arg(long, required = true)]
    pub source: Vec<String>,
    /// Only of this customer; more than once for several [default: the source and all its customers]
    #[arg(long)]
    pub customer_id: Vec<String>,
    /// Only of this query of the customer; more than once for several [default: all of them]
    #[arg(long, requires = "customer_id")]
    pub query_name: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct HoldSet {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// How long, like 2h [default: until it is lifted]
    #[arg(long, value_name = "DURATION", value_parser = redrive_data::settings::duration::parse)]
    pub r#for: Option<std::time::Duration>,
    /// Until when, like 2026-01-31T04:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "for")]
    pub until: Option<String>,
    #[command(flatten)]
    pub change: HoldChangeArgs,
}

/// How sure, and why. A hold changes no partition and can be taken back, so that it is never asked about.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Safety")]
pub struct HoldChangeArgs {
    /// List what would be held or lifted, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// As other changes have it; a hold asks no question
    #[arg(short, long)]
    pub yes: bool,
    /// As other changes have it; a hold has no limit
    #[arg(long)]
    pub force: bool,
    /// Why, for the audit trail and for everyone who asks why nothing runs
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct HoldLift {
    #[command(flatten)]
    pub scope: ScopeArgs,
    #[command(flatten)]
    pub change: HoldChangeArgs,
}
