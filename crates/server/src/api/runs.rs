//! Runs of every kind, the newest submission first.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::runs::{RunExplanation, RunFilter};
use redrive_control::shape::{RunEventShape, RunShape};
use redrive_control::{Insight, Report, RunVerb, Watch};
use redrive_core::id::RunId;
use redrive_core::refusal::Reason;
use redrive_core::run::Workload;
use redrive_store::RunPage;
use schemars::JsonSchema;
use serde::Serialize;

use super::filter::{self, FILTERED, RUN_FILTER};
use super::worker::find;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Caller, Code, List, PAGING, Page, Params, PathText, answer, etag, if_match, json};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs", Access::Viewer, "Runs, the newest submission first", list)
            .query(&[RUN_FILTER, PAGING])
            .list::<Runs>()
            .refuses(FILTERED),
        Route::get("/v1/runs/{id}", Access::Viewer, "A run as it is now", one).json::<RunShape>().etag(),
        Route::get("/v1/runs/{id}/history", Access::Viewer, "What happened to a run, the first thing first", history)
            .json::<History>(),
        Route::get("/v1/runs/{id}/explain", Access::Viewer, "Why a run is not running now", explain)
            .json::<RunExplanation>(),
        Route::post("/v1/runs/{id}/retry", Access::Operator, RETRY, retry).json::<Report>().if_match().refuses(REFUSED),
        Route::post("/v1/runs/{id}/cancel", Access::Operator, "Cancel a run", cancel)
            .json::<Report>()
            .if_match()
            .refuses(REFUSED),
    ]
}

const RETRY: &str = "Start a fresh count of a run that is dead or waits after a failure";

/// Why a rule may keep a run from being changed.
const REFUSED: &[Code] = &[Code::Unusable, Code::Refused(Reason::InFlight), Code::Refused(Reason::NotQueued)];

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
        let found = self.insight.view().runs(RunPage { before, ..self.filter.page(limit) }).await?;
        Ok(Page::of(found, limit, |run| run.run_id, RunShape::from))
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::runs(&params, &insight).await?;
    answer(Runs { insight, filter }, &params, &headers).await
}

async fn one(State(app): State<App>, PathText(id): PathText<RunId>) -> Result<Response> {
    let run = find(&app, id).await?;
    let version = run.version;
    Ok(etag(json(&RunShape::from(run))?, version))
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunHistory")]
struct History {
    history: Vec<RunEventShape>,
}

async fn history(State(app): State<App>, PathText(id): PathText<RunId>) -> Result<Response> {
    let run = find(&app, id).await?;
    json(&History { history: app.insight().run_history(&run).await? })
}

async fn explain(State(app): State<App>, PathText(id): PathText<RunId>) -> Result<Response> {
    let run = find(&app, id).await?;
    json(&app.insight().explain_run(&run).await?)
}

async fn retry(State(app): State<App>, asked: RunChange) -> Result<Response> {
    change(&app, asked, RunVerb::Retry).await
}

async fn cancel(State(app): State<App>, asked: RunChange) -> Result<Response> {
    change(&app, asked, RunVerb::Cancel).await
}

/// Which run is to be changed, by whom, and on what that was decided.
type RunChange = (Extension<Caller>, PathText<RunId>, HeaderMap);

/// Changes a run as it was read here. What is so already is no error; what a rule forbids is.
async fn change(app: &App, (caller, id, headers): RunChange, verb: RunVerb) -> Result<Response> {
    let run = find(app, id.0).await?;
    if run.workload() == Workload::Extract {
        return Err(redrive_control::Error::NotThroughRuns.into());
    }
    if_match(&headers, run.version)?;
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
        return Err(Error::of_code(code, code.explained()));
    }
    if let Some(failed) = report.failed.first() {
        return Err(Error::of_code(Code::StoreUnavailable, failed.error.clone()));
    }
    json(report)
}
