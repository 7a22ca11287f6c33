//! What a worker that drains shows: how far it is, and at its end what failed and what to type next.

use redrive_control::Insight;
use redrive_control::shape::GroupShape;
use redrive_core::count::grouped;
use redrive_core::filter::Filter;
use redrive_core::text::{cut, one_line};
use redrive_core::time::Timestamp;
use redrive_data::worker::WorkerCounts;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::Result;
use crate::output;
use crate::output::progress::{Progress, Style};

/// How many causes are told of.
const CAUSES: usize = 3;
/// How much of a cause is shown.
const WIDTH: usize = 100;

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

/// What failed while the worker drained and is failed now, the most frequent causes first, and the command for the first of them.
pub async fn tell_of_failures(insight: &Insight, since: Timestamp) -> Result<()> {
    let mut groups = insight.groups(&Filter::default()).await?;
    groups.retain(|group| group.last_seen >= since);
    for line in lines(&groups) {
        output::note(&line);
    }
    Ok(())
}

fn lines(groups: &[GroupShape]) -> Vec<String> {
    let Some(first) = groups.first() else { return vec![] };
    let mut lines = vec!["failed now, by cause:".to_owned()];
    for group in groups.iter().take(CAUSES) {
        let template = one_line(&group.template);
        let (count, class) = (grouped(group.count), group.error_class);
        lines.push(format!("  {count:>7}  {class}  {}", cut(&template, WIDTH)));
    }
    if let Some(more) = groups.len().checked_sub(CAUSES).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more; `redrive state groups` lists all"));
    }
    let grant = if first.exhausted > 0 { " --grant full" } else { "" };
    lines.push(format!("next: redrive state retry --group {}{grant} --reason '…'", first.group));
    lines
}
