//! `runs prune`: forgets jobs that ended long ago.

use redrive_control::runs::PruneReport;
use redrive_control::{Audit, Insight};
use redrive_core::time::Timestamp;

use crate::cli::{ChangeArgs, Prune};
use crate::commands::Context;
use crate::commands::state::change::StateChanges;
use crate::commands::state::confirm::{self, Question};
use crate::commands::state::halted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::progress::Style;
use crate::shell::command_line;

pub async fn foresee(args: &Prune, insight: &Insight, context: &Context) -> Result<Exit> {
    let report = insight.foresee_prune(categories(args), ended_before(args, insight)).await?;
    show(&report, context)
}

pub async fn run(args: &Prune, changes: &StateChanges<'_>) -> Result<Exit> {
    let context = changes.context;
    let plane = changes.plane().await?;
    let Prune { yes, force, .. } = *args;
    let audit = Audit { reason: args.reason.clone(), yes, force, ..Audit::new(context.actor(), command_line()) };
    // One moment for the count and for what is done.
    let before = ended_before(args, plane.insight());
    let counted = plane.insight().foresee_prune(categories(args), before).await?.pruned;
    let given = ChangeArgs { yes, force, ..ChangeArgs::default() };
    confirm::get(&Question::of("forget", counted, "jobs"), changes.rails(), &given).await?;
    let watcher = changes.watcher_of(Style::Jobs);
    let report = plane.prune(categories(args), before, counted, &audit, watcher.watch(None)).await;
    watcher.end();
    show(&report, context)
}

fn categories(args: &Prune) -> Option<Vec<String>> {
    (!args.category.is_empty()).then(|| args.category.clone())
}

fn ended_before(args: &Prune, insight: &Insight) -> Timestamp {
    insight.now().saturating_sub(args.older_than)
}

fn show(report: &PruneReport, context: &Context) -> Result<Exit> {
    let names = ["op_id", "dry_run", "ended_before", "pruned"];
    output::ignore_broken_pipe(output::one(&names, report, &context.global, || in_words(report)))?;
    let Some(halt) = &report.halt else { return Ok(Exit::Done) };
    halted::note(halt, report.pruned, "jobs", "forgotten");
    Ok(halted::exit(halt))
}

fn in_words(report: &PruneReport) -> String {
    let PruneReport { pruned, ended_before, .. } = report;
    match (report.dry_run, report.op_id) {
        (true, _) => format!("would forget {pruned} jobs that ended before {ended_before}"),
        (false, Some(op_id)) => format!("forgot {pruned} jobs that ended before {ended_before}; operation {op_id}"),
        (false, None) if report.halt.is_some() => "forgot no jobs".to_owned(),
        (false, None) => format!("no job ended before {ended_before}"),
    }
}
