//! What a worker that drains shows: how far it is, and at its end what it did, what failed, what it left and what to type next.

mod causes;
mod leftovers;

use redrive_control::shape::Bounded;
use redrive_core::count::grouped;
use redrive_core::key::Source;
use redrive_core::time::Timestamp;
use redrive_data::worker::WorkerCounts;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::leftovers::Leftover;
use super::Context;
use crate::cli::Format;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::progress::{Progress, Style};
use crate::service::ServiceEnd;

/// Shows the counts of a worker on a terminal until it is dropped.
#[derive(Debug)]
pub struct CountsShown(AbortHandle);

impl CountsShown {
    pub fn start(mut counts: watch::Receiver<WorkerCounts>, quiet: bool) -> Self {
        let shown = tokio::spawn(async move {
            let progress = Progress::start(Style::Phases, quiet);
            loop {
                progress.message(in_words(&counts.borrow_and_update()));
                if counts.changed().await.is_err() {
                    return;
                }
            }
        });
        Self(shown.abort_handle())
    }
}

impl Drop for CountsShown {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn in_words(counts: &WorkerCounts) -> String {
    let WorkerCounts { claimed, accepted, rejected, released, cancelled, lost, .. } = counts;
    let ended = accepted + rejected + released + cancelled + lost;
    let under_way = claimed.saturating_sub(ended);
    let [accepted, rejected, under_way] = [*accepted, *rejected, under_way].map(grouped);
    format!("{accepted} accepted, {rejected} rejected, {under_way} under way")
}

/// A drain that has ended, and what was to be drained.
#[derive(Debug)]
pub struct Drained {
    pub ended: Result<ServiceEnd>,
    pub counts: WorkerCounts,
    pub begun: Timestamp,
    /// Those that it was to drain.
    pub sources: Vec<Source>,
}

impl Drained {
    /// Says what was done, what failed and what was left.
    pub async fn report(self, context: &Context) -> Result<Exit> {
        let Self { ended, counts, begun, sources } = self;
        let discover_failed = ended.as_ref().map_or(0, |ended| ended.discover_failed);
        let left = if ended.is_ok() { find_leftovers(&sources, context).await } else { Ok(vec![]) };
        let left_count = left.iter().flatten().fold(Bounded::default(), |all, left| all + left.count);
        let summary = Summary { counts, discover_failed, left: left_count };
        let shown = output::ignore_broken_pipe(show(&summary, context));
        // What became of the work matters more than whether it could be shown.
        let (ended, left) = (ended?, left?);
        shown?;
        if context.global.output == Format::Table && !context.global.quiet {
            if counts.rejected > 0 {
                causes::tell(&context.insight(&context.config()?).await?, begun).await?;
            }
            leftovers::tell(&left);
        }
        // A drain that was stopped, that could not find all jobs, or that left what is due has not done what it was asked for.
        Ok(match ended.was_asked {
            true => Exit::Interrupted,
            false if discover_failed > 0 || !left.is_empty() => Exit::SomeFailed,
            false => Exit::Done,
        })
    }
}

async fn find_leftovers(sources: &[Source], context: &Context) -> Result<Vec<Leftover>> {
    let config = context.config()?;
    leftovers::find(&context.insight(&config).await?, sources, &config.fingerprint).await
}

/// What a drain has to say.
#[derive(Debug, Clone, Copy, Serialize)]
struct Summary {
    #[serde(flatten)]
    counts: WorkerCounts,
    discover_failed: u64,
    /// Partitions that are due and whose source cannot be used.
    left: Bounded,
}

/// What JSON calls the counts.
const COUNTS: [&str; 12] = [
    "claimed",
    "accepted",
    "rejected",
    "rate_limited",
    "released",
    "cancelled",
    "lost",
    "records",
    "abandoned",
    "elsewhere",
    "discover_failed",
    "left",
];

/// What there is to say of other workers' attempts: often nothing.
fn others(counts: &WorkerCounts) -> String {
    let ended = match counts.abandoned {
        0 => String::new(),
        count => format!("; {count} of workers that fell silent ended as `lease expired`"),
    };
    match counts.elsewhere {
        None | Some(0) => ended,
        Some(count) => format!("{ended}; {count} still in flight elsewhere"),
    }
}

/// What there is to say of sections that could not be asked for new jobs: mostly nothing.
fn undiscovered(failed: u64) -> String {
    match failed {
        0 => String::new(),
        1 => "; the discover of one section failed, as the log says".to_owned(),
        count => format!("; the discovers of {count} sections failed, as the log says"),
    }
}

/// What there is to say of sources that cannot be used: mostly nothing.
fn left_undone(left: Bounded) -> String {
    if left.is_zero() { String::new() } else { format!("; {left} left, whose source cannot be used") }
}

fn show(summary: &Summary, context: &Context) -> Result<()> {
    let Summary { counts, discover_failed, left } = summary;
    let WorkerCounts { claimed, accepted, rejected, released, lost, records, .. } = counts;
    output::one(&COUNTS, summary, &context.global, || {
        format!(
            "{claimed} attempts: {accepted} accepted with {records} records, {rejected} rejected, \
             {released} given back, {lost} lost{}{}{}",
            others(counts),
            undiscovered(*discover_failed),
            left_undone(*left)
        )
    })
}
