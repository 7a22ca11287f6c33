//! The commands that change partitions: look ahead, ask, do it, report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_control::{
    Audit, ControlPlane, Found, Insight, Plan, PlanAsk, PlanOutline, PlanPrefix, Report, Request, Verb, Watch,
};
use redrive_core::filter::Filter;
use redrive_core::hold::HoldKind;
use redrive_core::safety::Rails;

use super::confirm::{self, Question};
use super::{filter, hold, operation, show, words};
use crate::cli::{Apply, BackfillEnqueue, ChangeArgs, FilterArgs, FilteredChange, HoldLift, Retry, Undo};
use crate::commands::{Context, Missing};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::input;
use crate::output;
use crate::output::progress::{Progress, Style};
use crate::shell::command_line;
use crate::stop::StopSignals;

/// The commands that change partitions, over what they are configured with.
pub struct StateChanges<'a> {
    pub config: &'a Config,
    pub context: &'a Context,
}

impl StateChanges<'_> {
    pub(in crate::commands) fn rails(&self) -> Rails {
        let safety = &self.config.settings.safety;
        Rails { confirm_above: safety.confirm_above.into(), hard_limit: safety.hard_limit.into() }
    }

    pub(in crate::commands) async fn insight(&self) -> Result<Insight> {
        self.context.insight(self.config).await
    }

    pub(in crate::commands) async fn plane(&self) -> Result<ControlPlane> {
        self.context.control(self.config, Missing::Refuse).await
    }

    pub(in crate::commands) fn audit(&self, change: &ChangeArgs) -> Audit {
        Audit {
            actor: self.context.actor(),
            command: command_line(),
            reason: change.reason.clone(),
            yes: change.yes,
            force: change.force,
        }
    }

    async fn filter(&self, args: &FilterArgs, insight: &Insight) -> Result<Filter> {
        filter::resolve(args, insight, self.context.global.quiet).await
    }

    pub(in crate::commands) fn watcher(&self) -> CancelAndProgress {
        self.watcher_of(Style::Changes)
    }

    pub(in crate::commands) fn watcher_of(&self, style: Style) -> CancelAndProgress {
        CancelAndProgress::start(&self.context.stop, style, self.context.global.quiet)
    }

    pub async fn lift(&self, args: &HoldLift, kind: Option<HoldKind>) -> Result<Exit> {
        if args.change.dry_run {
            return hold::foresee_lift(args, kind, &self.insight().await?, self.context).await;
        }
        hold::lift(args, kind, &self.plane().await?, self.context).await
    }

    pub async fn retry(&self, args: &Retry) -> Result<Exit> {
        let Retry { clear_terminal, allow_missing_raw, stale, grant, .. } = *args;
        let verb = Verb::Retry { clear_terminal, allow_missing_raw, stale, grant };
        self.change(verb, &args.filter, &args.change, args.limit).await
    }

    pub async fn operate(&self, verb: Verb, args: &FilteredChange) -> Result<Exit> {
        self.change(verb, &args.filter, &args.change, None).await
    }

    async fn change(&self, verb: Verb, filter: &FilterArgs, change: &ChangeArgs, limit: Option<u64>) -> Result<Exit> {
        if change.dry_run {
            return self.foresee(verb, filter, change, limit).await;
        }
        let plane = self.plane().await?;
        let filter = self.filter(filter, plane.insight()).await?;
        let request = Request { verb, filter, audit: self.audit(change), limit };
        let watcher = self.watcher();
        // One partition needs no count, and neither does a change without limits.
        if change.force || request.filter.as_key().is_some() {
            let report = plane.operate(&request, watcher.watch(None)).await?;
            watcher.end();
            return self.end(&report);
        }
        let (ask, enough) = (PlanAsk::Partitions(request), self.rails().hard_limit);
        let (counted, plan) = plane.insight().plan(&ask, watcher.watch(Some(enough))).await?;
        // What was not seen cannot be counted, and so not be confirmed.
        if counted.halt.is_some() {
            watcher.end();
            return self.end(&counted);
        }
        watcher.clear();
        let about = counted.extent.lines(confirm::MOST);
        let question = Question { verb: verb.name(), count: plan.len(), noun: plan.noun(), about };
        confirm::get(&question, self.rails(), change).await?;
        let report = plane.operate_as_counted(&ask, counted, plan, watcher.watch(None)).await?;
        watcher.end();
        self.end(&report)
    }

    /// Says what a change would do, and saves the plan of it where one is asked for.
    async fn foresee(&self, verb: Verb, filter: &FilterArgs, change: &ChangeArgs, limit: Option<u64>) -> Result<Exit> {
        let ask = |filter| PlanAsk::Partitions(Request { verb, filter, audit: self.audit(change), limit });
        if change.keep_plan {
            let plane = self.plane().await?;
            let filter = self.filter(filter, plane.insight()).await?;
            return self.keep_plan(&plane, ask(filter)).await;
        }
        let insight = self.insight().await?;
        let filter = self.filter(filter, &insight).await?;
        self.foresee_and_save(&insight, ask(filter), change).await
    }

    /// Says what a change would do, and writes the plan of it where a file is asked for.
    pub(in crate::commands) async fn foresee_and_save(
        &self,
        insight: &Insight,
        ask: PlanAsk,
        change: &ChangeArgs,
    ) -> Result<Exit> {
        let watcher = self.watcher();
        let (report, plan) = insight.plan(&ask, watcher.watch(None)).await.map_err(words::of)?;
        watcher.end();
        save(&plan, &report, change)?;
        self.end(&report)
    }

    /// Says what a change would do, and keeps the plan of it in the database.
    pub(in crate::commands) async fn keep_plan(&self, plane: &ControlPlane, ask: PlanAsk) -> Result<Exit> {
        let watcher = self.watcher();
        let (report, plan) = plane.foresee_and_keep(&ask, watcher.watch(None)).await.map_err(words::of)?;
        watcher.end();
        let exit = self.end(&report)?;
        if !self.context.global.quiet {
            let id = plan.plan_id;
            output::note(&format!("plan {id} is kept until {}: redrive state apply {id}", plan.expires_at));
        }
        Ok(exit)
    }

    /// A slip in a source's name would otherwise be noticed only when nothing ever comes of it.
    fn warn_of_stranger(&self, filter: &Filter, insight: &Insight) {
        let sources = insight.sources();
        if self.context.global.quiet || sources.known().next().is_none() {
            return;
        }
        for source in filter.source.iter().filter(|source| !sources.is_known(source)) {
            output::note(&format!("this configuration has no [sources.{source}]; no worker that uses it takes these"));
        }
    }

    pub async fn backfill(&self, args: &BackfillEnqueue) -> Result<Exit> {
        if args.filter.status.is_some() || args.filter.error_class.is_some() {
            return Err(Error::Usage(
                "a backfill wants days whatever became of them; leave out --status and --error-class".to_owned(),
            ));
        }
        let (force_pending, audit) = (args.force_pending, self.audit(&args.change));
        if args.change.keep_plan {
            let plane = self.plane().await?;
            let filter = self.filter(&args.filter, plane.insight()).await?;
            return self.keep_plan(&plane, PlanAsk::Backfill { filter, force_pending, audit }).await;
        }
        if args.change.dry_run {
            let insight = self.insight().await?;
            let filter = self.filter(&args.filter, &insight).await?;
            self.warn_of_stranger(&filter, &insight);
            return self
                .foresee_and_save(&insight, PlanAsk::Backfill { filter, force_pending, audit }, &args.change)
                .await;
        }
        let plane = self.context.control(self.config, Missing::Make).await?;
        let filter = self.filter(&args.filter, plane.insight()).await?;
        self.warn_of_stranger(&filter, plane.insight());
        let size = plane.insight().backfill_size(&filter).map_err(words::of)?;
        confirm::get(&Question::of("backfill", size, "partitions"), self.rails(), &args.change).await?;
        let watcher = self.watcher();
        let report = plane.backfill(&filter, force_pending, &audit, watcher.watch(None)).await?;
        watcher.end();
        self.end(&report)
    }

    pub async fn apply(&self, args: &Apply) -> Result<Exit> {
        let file = Path::new(&args.plan);
        if let (false, Ok(prefix)) = (file.exists(), args.plan.parse::<PlanPrefix>()) {
            return self.apply_kept(prefix, args).await;
        }
        let text = input::read_to_string(file)
            .map_err(|error| Error::Usage(format!("cannot read {}: {error}", file.display())))?;
        let plan = Plan::parse(&text)?;
        let mut audit = self.audit(&args.change);
        audit.reason = audit.reason.or_else(|| plan.reason().map(str::to_owned));
        if args.change.dry_run {
            let (insight, watcher) = (self.insight().await?, self.watcher());
            let report = insight.foresee_plan(plan, &audit, watcher.watch(None)).await?;
            watcher.end();
            return self.end(&report);
        }
        let plane = self.plane().await?;
        confirm::get(&Question::of("apply", plan.len(), plan.noun()), self.rails(), &args.change).await?;
        let watcher = self.watcher();
        let report = plane.apply_plan(plan, &audit, watcher.watch(None)).await?;
        watcher.end();
        self.end(&report)
    }

    /// Acts on a plan that the database keeps.
    async fn apply_kept(&self, prefix: PlanPrefix, args: &Apply) -> Result<Exit> {
        let audit = self.audit(&args.change);
        if args.change.dry_run {
            let (insight, watcher) = (self.insight().await?, self.watcher());
            let plan = kept(prefix, args, &insight).await?;
            let report = insight.foresee_kept(plan.plan_id, &audit, watcher.watch(None)).await.map_err(words::of)?;
            watcher.end();
            return self.end(&report);
        }
        let plane = self.plane().await?;
        let plan = kept(prefix, args, plane.insight()).await?;
        confirm::get(&Question::of("apply", plan.would_change, plan.noun), self.rails(), &args.change).await?;
        let watcher = self.watcher();
        let report = plane.apply_kept(plan.plan_id, &audit, watcher.watch(None)).await.map_err(words::of)?;
        watcher.end();
        self.end(&report)
    }

    pub async fn undo(&self, args: &Undo) -> Result<Exit> {
        let audit = self.audit(&args.change);
        if args.change.dry_run {
            let (insight, watcher) = (self.insight().await?, self.watcher());
            let op_id = operation::find(&args.operation, &audit.actor, &insight).await?;
            let report = insight.foresee_undo(op_id, &audit, watcher.watch(None)).await.map_err(words::of)?;
            watcher.end();
            return self.end(&report);
        }
        let plane = self.plane().await?;
        let op_id = operation::find(&args.operation, &audit.actor, plane.insight()).await?;
        let count = plane.insight().changes_of(op_id).await.map_err(words::of)?;
        let noun = plane.insight().noun_of(op_id).await.map_err(words::of)?;
        confirm::get(&Question::of("undo", count, noun), self.rails(), &args.change).await?;
        let watcher = self.watcher();
        let report = plane.undo(op_id, &audit, watcher.watch(None)).await?;
        watcher.end();
        self.end(&report)
    }

    pub(in crate::commands) fn end(&self, report: &Report) -> Result<Exit> {
        output::ignore_broken_pipe(show::report(report, &self.context.global))?;
        Ok(show::exit(report))
    }
}

/// The plan that an id, or the beginning of one, stands for.
async fn kept(prefix: PlanPrefix, args: &Apply, insight: &Insight) -> Result<PlanOutline> {
    let text = &args.plan;
    match insight.find_plan(prefix).await.map_err(words::of)? {
        Found::One(plan) => Ok(plan),
        Found::Nothing => Err(Error::NothingFound(format!(
            "there is no file {text}, and no plan of this id; a plan is kept for a day"
        ))),
        Found::Several(first, second) => Err(Error::Usage(format!(
            "{text} is the beginning of several plans, among them {first} and {second}; give more of it"
        ))),
    }
}

/// Writes the plan where one is asked for. Half a plan would pass for a whole one.
fn save(plan: &Plan, report: &Report, change: &ChangeArgs) -> Result<()> {
    if let (Some(file), None) = (&change.save_plan, &report.halt) {
        let text = serde_json::to_string_pretty(plan)?;
        std::fs::write(file, text).map_err(Error::io(format!("cannot write {}", file.display())))?;
    }
    Ok(())
}

/// Hears signals, and shows how far things are when they take long.
pub(in crate::commands) struct CancelAndProgress {
    cancelled: Arc<AtomicBool>,
    progress: Arc<Progress>,
    show: Box<dyn Fn(u64) + Send + Sync>,
    listener: tokio::task::AbortHandle,
}

impl CancelAndProgress {
    fn start(stop: &StopSignals, style: Style, quiet: bool) -> Self {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (flag, stop) = (Arc::clone(&cancelled), stop.clone());
        let listener = tokio::spawn(async move {
            stop.requested().await;
            flag.store(true, Ordering::SeqCst);
        });
        let progress = Arc::new(Progress::start(style, quiet));
        let shown = Arc::clone(&progress);
        let show = Box::new(move |done: u64| shown.to(done));
        Self { cancelled, progress, show, listener: listener.abort_handle() }
    }

    pub(in crate::commands) fn watch(&self, stop_after: Option<u64>) -> Watch<'_> {
        Watch { cancelled: &self.cancelled, progress: &*self.show, stop_after }
    }

    /// Takes the progress off the screen, before a question is asked.
    pub(in crate::commands) fn clear(&self) {
        self.progress.clear();
    }

    pub(in crate::commands) fn end(&self) {
        self.listener.abort();
        self.clear();
    }
}
