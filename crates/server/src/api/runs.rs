//! Runs of every kind, the newest submission first.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::runs::RunFilter;
use redrive_control::shape::RunShape;
use redrive_control::{Insight, Report, RunVerb, Watch};
use redrive_core::count;
use redrive_core::id::RunId;
use redrive_core::run::Workload;
use redrive_store::{BOUND, RunPage};

use super::filter::{self, RUN_FILTER};
use super::worker::find;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{Caller, Code, List, PAGING, Page, Params, PathText, answer, etag, if_match, json};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs", Access::Viewer, "Runs, the newest submission first", list)
            .query(&[RUN_FILTER, PAGING])
            .gives(Gives::List),
        Route::get("/v1/runs/{id}", Access::Viewer, "A run as it is now", one),
        Route::get("/v1/runs/{id}/explain", Access::Viewer, "Why a run is not running now", explain),
        Route::post("/v1/runs/{id}/retry", Access::Operator, "Start a fresh count of a run that is dead", retry),
        Route::post("/v1/runs/{id}/cancel", Access::Operator, "Cancel a run", cancel),
    ]
}

struct Runs {
    insight: Insight,
    filter: RunFilter,
}

impl List for Runs {
    type Row = RunShape;
    type Key = RunId;
    const NOUN: &'static str = "runs";

    fn mark(&self) -> String {
        serde_json::to_string(&self.filter).unwrap_or_default()
    }

    async fn page(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunShape, RunId>> {
        let rows = self.insight.view().runs(RunPage { before, ..self.filter.page(limit) }).await?;
        let is_last = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let next = rows.last().map(|run| run.run_id).filter(|_| !is_last);
        Ok(Page { rows: rows.into_iter().map(RunShape::from).collect(), next })
    }

    async fn count(&self) -> Result<Option<u64>> {
        let (mut counted, mut before) = (0, None);
        loop {
            let page = self.page(before, 1000).await?;
            counted += count::of(page.rows.len());
            before = page.next;
            if before.is_none() || counted >= BOUND {
                return Ok(Some(counted.min(BOUND)));
            }
        }
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::runs(&params, &insight).await?;
    answer(Runs { insight, filter }, &params, &headers).await
}

async fn one(State(app): State<App>, PathText(id): PathText<String>) -> Result<Response> {
    let run = find(&app, &id).await?;
    let version = run.version;
    Ok(etag(json(&RunShape::from(run))?, version))
}

async fn explain(State(app): State<App>, PathText(id): PathText<String>) -> Result<Response> {
    let run = find(&app, &id).await?;
    json(&app.insight().explain_run(&run).await?)
}

async fn retry(
    State(app): State<App>,
    caller: Extension<Caller>,
    id: PathText<String>,
    headers: HeaderMap,
) -> Result<Response> {
    change(&app, &caller, &id.0, RunVerb::Retry, &headers).await
}

async fn cancel(
    State(app): State<App>,
    caller: Extension<Caller>,
    id: PathText<String>,
    headers: HeaderMap,
) -> Result<Response> {
    change(&app, &caller, &id.0, RunVerb::Cancel, &headers).await
}

/// Changes a run as it was read here. What is so already is no error; what a rule forbids is.
async fn change(app: &App, caller: &Caller, id: &str, verb: RunVerb, headers: &HeaderMap) -> Result<Response> {
    let run = find(app, id).await?;
    if run.workload() == Workload::Extract {
        return Err(redrive_control::Error::NotThroughRuns.into());
    }
    if_match(headers, run.version)?;
    let audit = caller.audit(&format!("POST /v1/runs/{{id}}/{}", verb.name()));
    let never = AtomicBool::new(false);
    let watch = Watch { cancelled: &never, progress: &|_| {}, stop_after: None };
    let report = app.rules().plane.operate_run(&run, verb, &audit, watch).await?;
    one_report(&report)
}

/// The report on one thing: as it is, unless a rule forbade it or the database failed.
fn one_report(report: &Report) -> Result<Response> {
    if let Some(refused) = report.skipped().find(|skipped| skipped.refused) {
        let code = Code::Refused(refused.reason);
        return Err(Error::told(code, code.explained()));
    }
    if let Some(failed) = report.failed.first() {
        return Err(Error::told(Code::StoreUnavailable, failed.error.clone()));
    }
    json(report)
}
