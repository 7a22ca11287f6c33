//! The flags of `redrive ingest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Ingest {
    /// Store archives and have them parsed
    Upload(Upload),
    /// List uploads, the newest first
    #[command(after_help = "\
Examples:
  redrive ingest list --limit 5")]
    List(UploadList),
    /// Show one upload's run
    #[command(after_help = "\
Examples:
  redrive ingest show 019a8f00 -o json | jq .metrics")]
    Show(UploadArg),
    /// Print the stanzas of an upload, in the order of its files
    #[command(after_help = "\
Examples:
  redrive ingest stanzas 019a8f00 --file default/props.conf --name access_combined")]
    Stanzas(Stanzas),
    /// Print the configuration that takes effect, with the file and line of each value
    #[command(after_help = "\
Examples:
  redrive ingest effective 019a8f00 --app search --conf props")]
    Effective(Effective),
    /// Compare two uploads by stanza and key; order and spacing do not count
    #[command(after_help = "\
Examples:
  redrive ingest diff 019a8f00 019a9a12")]
    Diff(Diff),
    /// Find settings in all uploads that are COMPLETE
    Search(Search),
    /// Say what a strict reader objects to; exit 1 when there is anything
    #[command(after_help = "\
Examples:
  redrive ingest lint ./apps apps.tgz
  redrive ingest lint 019a8f00")]
    Lint(Lint),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive ingest upload apps.tgz --wait
  redrive ingest upload /opt/splunk/etc/apps          a folder is packed on the way
  curl -s https://example/apps.zip | redrive ingest upload - -o json")]
pub struct Upload {
    /// Archives (tar, tar.gz, tgz, spl, tar.bz2, tar.xz, tar.zst, zip), single .conf or .meta files, folders, or - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Wait until each is COMPLETE or FAILED; exit 1 when one is FAILED
    #[arg(long)]
    pub wait: bool,
    /// With --wait, how long an upload may stay untouched before it counts as taken by no worker
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "wait", value_parser = redrive_data::settings::duration::parse)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Args)]
pub struct UploadList {
    /// How many at most; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
pub struct UploadArg {
    /// The run's id, or an unambiguous beginning of it
    #[arg(value_name = "RUN")]
    pub run: String,
}

#[derive(Debug, Clone, Args)]
pub struct Stanzas {
    /// The run's id, or an unambiguous beginning of it
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Only files with this path, or whose path ends so: `default/props.conf`, `props.conf`
    #[arg(long)]
    pub file: Option<String>,
    /// Only stanzas of this name
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct Effective {
    /// The run's id, or an unambiguous beginning of it
    #[arg(value_name = "RUN")]
    pub run: String,
    /// What takes effect in this app [default: what takes effect for the whole installation]
    #[arg(long)]
    pub app: Option<String>,
    /// What takes effect for this user of the app
    #[arg(long, requires = "app")]
    pub user: Option<String>,
    /// Only this configuration file: `props` or `props.conf`
    #[arg(long)]
    pub conf: Option<String>,
    /// Leave out what stanzas inherit from [default]
    #[arg(long)]
    pub no_inherit: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Diff {
    /// The older run, by its id or an unambiguous beginning of it
    #[arg(value_name = "OLD")]
    pub old: String,
    /// The newer run
    #[arg(value_name = "NEW")]
    pub new: String,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  redrive ingest search --word my_macro               where is this macro used
  redrive ingest search --conf props --key TRANSFORMS-set
  redrive ingest search --stanza 'script://./bin/poll.sh' --key interval")]
pub struct Search {
    /// Only this configuration file: `props` or `props.conf`
    #[arg(long)]
    pub conf: Option<String>,
    /// Only stanzas of this name
    #[arg(long)]
    pub stanza: Option<String>,
    /// Only this key
    #[arg(long)]
    pub key: Option<String>,
    /// Only this value
    #[arg(long, conflicts_with = "value_prefix")]
    pub value: Option<String>,
    /// Only values that begin so
    #[arg(long, value_name = "TEXT")]
    pub value_prefix: Option<String>,
    /// Only values that hold this word or phrase; letters, digits and underscores make words
    #[arg(long)]
    pub word: Option<String>,
    /// Only this run, finished or not
    #[arg(long)]
    pub run: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
pub struct Lint {
    /// Files, folders and archives on this machine, - for stdin, or runs by their ids
    #[arg(required = true, value_name = "FILE|RUN")]
    pub what: Vec<String>,
}
