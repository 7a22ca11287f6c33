//! `runs retry` and `runs cancel`: look ahead, ask, do it, report.

use redrive_control::{Insight, PlanAsk, RunRequest, RunSelection, RunVerb};

use super::{filter, find};
use crate::cli::RunChange;
use crate::commands::state::change::StateChanges;
use crate::commands::state::confirm::{self, Question};
use crate::commands::state::words;
use crate::error::{Error, Result};
use crate::exit::Exit;

/// The commands that change runs. Questions, progress and reports are those of the commands that change partitions.
pub struct RunChanges<'a>(pub StateChanges<'a>);

impl RunChanges<'_> {
    pub async fn change(&self, verb: RunVerb, args: &RunChange) -> Result<Exit> {
        if args.change.dry_run {
            return self.foresee(verb, args).await;
        }
        let plane = self.0.plane().await?;
        let request = self.request(verb, args, plane.insight()).await?;
        let watcher = self.0.watcher();
        let one = matches!(&request.runs, RunSelection::Ids { runs } if runs.len() == 1);
        // One run needs no count, and neither does a change without limits.
        if args.change.force || one {
            let report = plane.operate_runs(&request, watcher.watch(None)).await.map_err(words::of)?;
            watcher.end();
            return self.0.end(&report);
        }
        let (ask, enough) = (PlanAsk::Runs(request), self.0.rails().hard_limit);
        let planned = plane.insight().plan(&ask, watcher.watch(Some(enough))).await;
        let (counted, plan) = planned.map_err(words::of)?;
        // What was not seen cannot be counted, and so not be confirmed.
        if counted.halt.is_some() {
            watcher.end();
            return self.0.end(&counted);
        }
        watcher.clear();
        confirm::get(&Question::of(verb.name(), plan.len(), "runs"), self.0.rails(), &args.change).await?;
        let report = plane.operate_as_counted(&ask, counted, plan, watcher.watch(None)).await?;
        watcher.end();
        self.0.end(&report)
    }

    /// Says what a change would do, and saves the plan of it where one is asked for.
    async fn foresee(&self, verb: RunVerb, args: &RunChange) -> Result<Exit> {
        if args.change.keep_plan {
            let plane = self.0.plane().await?;
            let request = self.request(verb, args, plane.insight()).await?;
            return self.0.keep_plan(&plane, PlanAsk::Runs(request)).await;
        }
        let insight = self.0.insight().await?;
        let request = self.request(verb, args, &insight).await?;
        self.0.foresee_and_save(&insight, PlanAsk::Runs(request), &args.change).await
    }

    async fn request(&self, verb: RunVerb, args: &RunChange, insight: &Insight) -> Result<RunRequest> {
        let runs = match args.ids.is_empty() {
            true => RunSelection::Filter(filter::resolve(&args.filter, insight).await?),
            false => RunSelection::Ids { runs: ids(&args.ids, insight).await? },
        };
        Ok(RunRequest { verb, runs, audit: self.0.audit(&args.change) })
    }
}

/// The runs that ids or their beginnings stand for, each once. One that is not there is a slip.
async fn ids(asked: &[String], insight: &Insight) -> Result<Vec<redrive_core::id::RunId>> {
    let mut runs = Vec::with_capacity(asked.len());
    for id in asked {
        let found = find(id, insight).await?;
        let absent = || Error::NothingFound(format!("there is no run {id}; `redrive runs list` shows them"));
        let run_id = found.ok_or_else(absent)?.run_id;
        if !runs.contains(&run_id) {
            runs.push(run_id);
        }
    }
    Ok(runs)
}
