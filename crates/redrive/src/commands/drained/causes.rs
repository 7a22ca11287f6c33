//! What failed while a worker drained, by cause, and what to type next.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use redrive_control::Insight;
use redrive_control::shape::{GroupShape, RunGroupShape};
use redrive_core::count::grouped;
use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::text::{cut, one_line};
use redrive_core::time::Timestamp;
use redrive_store::RunPage;

use crate::error::Result;
use crate::output;

/// How many causes are told of.
const CAUSES: usize = 3;
/// A group that was seen a moment ago is not touched again: its last failure may be later by this much.
const TOUCHED_WITHIN: Duration = Duration::from_secs(1);
/// How much of a cause is shown.
const WIDTH: usize = 100;

/// What failed while the worker drained and is failed now, the most frequent causes first, and the command for the first of them.
pub(super) async fn tell(insight: &Insight, since: Timestamp) -> Result<()> {
    let since = since.saturating_sub(TOUCHED_WITHIN);
    let partitions = insight.groups(&Filter::default()).await?;
    let runs = insight.view().run_groups(RunPage { limit: u32::MAX, ..RunPage::default() }).await?;
    let partitions = partitions.into_iter().filter(|group| group.last_seen >= since).map(FailureCause::from);
    let runs =
        runs.into_iter().map(RunGroupShape::from).filter(|group| group.last_seen >= since).map(FailureCause::from);
    let mut causes: Vec<FailureCause> = partitions.chain(runs).collect();
    causes.sort_by_key(|cause| Reverse(cause.count));
    for line in lines(&causes) {
        output::note(&line);
    }
    Ok(())
}

/// What several failures have in common.
#[derive(Debug)]
struct FailureCause {
    count: u64,
    class: ErrorClass,
    /// In words.
    what: String,
    /// The command that lists all of its kind.
    all: &'static str,
    next: String,
}

impl From<GroupShape> for FailureCause {
    fn from(group: GroupShape) -> Self {
        let grant = if group.exhausted > 0 { " --grant full" } else { "" };
        let next = format!("redrive state retry --group {}{grant} --reason '…'", group.group);
        Self { count: group.count, class: group.error_class, what: group.template, all: "redrive state groups", next }
    }
}

impl From<RunGroupShape> for FailureCause {
    fn from(group: RunGroupShape) -> Self {
        let next = match group.final_errors + group.exhausted {
            0 => format!("redrive runs list --group {}    they are tried again by themselves", group.group),
            _ => format!("redrive runs retry --group {} --reason '…'", group.group),
        };
        let what = match group.categories.as_slice() {
            [] => group.template,
            categories => format!("{}: {}", categories.join(", "), group.template),
        };
        Self { count: group.count, class: group.error_class, what, all: "redrive runs groups", next }
    }
}

fn lines(causes: &[FailureCause]) -> Vec<String> {
    let Some(first) = causes.first() else { return vec![] };
    let mut lines = vec!["failed now, by cause:".to_owned()];
    for FailureCause { count, class, what, .. } in causes.iter().take(CAUSES) {
        let count = grouped(*count);
        lines.push(format!("  {count:>7}  {class}  {}", cut(&one_line(what), WIDTH)));
    }
    if let Some(more) = causes.len().checked_sub(CAUSES).filter(|more| *more > 0) {
        let all: BTreeSet<&str> = causes.iter().map(|cause| cause.all).collect();
        let all: Vec<String> = all.into_iter().map(|command| format!("`{command}`")).collect();
        let list = if all.len() == 1 { "lists" } else { "list" };
        lines.push(format!("  and {more} more; {} {list} all", all.join(" and ")));
    }
    lines.push(format!("next: {}", first.next));
    lines
}
