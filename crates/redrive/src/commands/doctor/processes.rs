//! Who is at work: living workers and daemons, and sources with work that none of them serves.

use std::collections::BTreeMap;

use redrive_core::process::{Kind, Living};
use redrive_core::retry::RetryPolicy;
use redrive_store::{BOUND, OverviewQuery, SourceCounts, View};

use super::findings::{Finding, Findings};
use crate::config::Config;

const CHECK: &str = "processes";

pub async fn check(view: &View, config: &Config, findings: &mut Findings) {
    if let Err(error) = look(view, config, findings).await {
        findings.add(Finding::unusable(CHECK, error.to_string()));
    }
}

async fn look(view: &View, config: &Config, findings: &mut Findings) -> redrive_store::Result<()> {
    let (processes, now) = (view.processes().await?, view.now());
    let living = Living::of(&processes, now);
    let count = |kind| living.iter().filter(|process| process.kind == kind).count();
    let (workers, daemons) = (count(Kind::Worker), count(Kind::Daemon));
    findings.add(match (workers, daemons) {
        (0, 0) => Finding::note(CHECK, "no worker and no daemon is alive; start `redrive worker` and `redrive daemon`"),
        (0, _) => Finding::note(CHECK, "no worker is alive, so nothing is extracted; start `redrive worker`"),
        (_, 0) => Finding::note(CHECK, "no daemon is alive, so that nothing is retried; start `redrive daemon`"),
        (workers, daemons) => Finding::good(CHECK, format!("workers alive: {workers}, daemons alive: {daemons}")),
    });
    let (source, policies, holds) = (None, BTreeMap::new(), Vec::new());
    let asked = OverviewQuery { source, policies, otherwise: RetryPolicy::partitions(), holds, now };
    for (source, counts) in view.source_counts(asked).await? {
        let is_configured = config.settings.sources.get(&source).is_some_and(|section| section.extract.is_some());
        let wanted = wanted(&counts);
        if wanted == 0 || is_configured || living.extracting(&source).next().is_some() {
            continue;
        }
        let most = if wanted >= BOUND { "at least " } else { "" };
        let todo = format!("add [sources.{source}.extract] or withdraw them");
        let says = format!("{most}{wanted} partitions of {source} wait, and nobody serves that source; {todo}");
        findings.add(Finding::note(CHECK, says));
    }
    Ok(())
}

/// What somebody would have to bring.
fn wanted(counts: &SourceCounts) -> u64 {
    counts.queued + counts.cooling_down + counts.held + counts.waiting + counts.due
}
