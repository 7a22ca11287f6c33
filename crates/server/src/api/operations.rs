//! Operations: how each stands, what became of its items, ending and undoing it.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::shape::{BulkItemShape, BulkOperationShape};
use redrive_control::{Audit, Insight};
use redrive_core::id::OpId;
use redrive_store::{CancelOutcome, ItemOutcome};
use schemars::JsonSchema;
use serde::Deserialize;

use super::holds;
use super::state::{accepted, begun};
use crate::app::App;
use crate::error::Result;
use crate::routes::{Access, Route};
use crate::web::{
    self, Caller, Code, Json, List, Note, PAGING, Page, Param, ParamKind, Params, PathText, answer, bad_param,
};

const OUTCOME: &[Param] =
    &[Param::new("outcome", ParamKind::Word(&["changed", "skipped", "failed"]), "Only items with this outcome")];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/operations", Access::Viewer, "Operations, the newest first", list)
            .query(&[PAGING])
            .list::<Operations>(),
        Route::get("/v1/operations/{op}", Access::Viewer, "How an operation stands", one).json::<BulkOperationShape>(),
        Route::get("/v1/operations/{op}/items", Access::Viewer, "What became of each of its items", items)
            .query(&[OUTCOME, PAGING])
            .list::<Items>(),
        Route::post("/v1/operations/{op}/cancel", Access::Operator, "End an operation after the step it is at", cancel)
            .json::<BulkOperationShape>(),
        Route::post("/v1/operations/{op}/undo", Access::Operator, "Put back what nothing has touched since", undo)
            .takes::<Undo>()
            .accepted::<BulkOperationShape>()
            .refuses(&[Code::InProgress]),
    ]
}

struct Operations(Insight);

impl List for Operations {
    type Row = BulkOperationShape;
    type Key = OpId;
    const NOUN: &'static str = "operations";

    fn mark(&self) -> String {
        String::new()
    }

    async fn page(&self, before: Option<OpId>, limit: u32) -> Result<Page<BulkOperationShape, OpId>> {
        let rows = self.0.bulk_operations(before, limit).await?;
        Ok(Page::of(rows, limit, |row| row.op_id, |row| row))
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    answer(Operations(app.insight()), &params, &headers).await
}

async fn one(State(app): State<App>, PathText(op): PathText<OpId>) -> Result<Response> {
    web::json(&app.insight().bulk_operation(op).await?)
}

struct Items {
    insight: Insight,
    op_id: OpId,
    outcome: Option<ItemOutcome>,
}

impl List for Items {
    type Row = BulkItemShape;
    type Key = i64;
    const NOUN: &'static str = "items";

    fn mark(&self) -> String {
        format!("{} {:?}", self.op_id, self.outcome)
    }

    async fn page(&self, after: Option<i64>, limit: u32) -> Result<Page<BulkItemShape, i64>> {
        let (rows, next) = self.insight.bulk_items(self.op_id, after.unwrap_or(0), self.outcome, limit).await?;
        Ok(Page { rows, next })
    }
}

async fn items(
    State(app): State<App>,
    PathText(op_id): PathText<OpId>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response> {
    let outcome = match params.get("outcome") {
        None => None,
        Some(word) => {
            let unknown =
                || bad_param("outcome", &format!("{word:?} is unknown; it is one of changed, skipped, failed"));
            Some(ItemOutcome::of(word).ok_or_else(unknown)?)
        }
    };
    answer(Items { insight: app.insight(), op_id, outcome }, &params, &headers).await
}

async fn cancel(State(app): State<App>, PathText(op): PathText<OpId>) -> Result<Response> {
    let outcome = app.store().control().cancel_bulk(op).await?;
    match outcome {
        CancelOutcome::Asked | CancelOutcome::Over(_) => web::json(&app.insight().bulk_operation(op).await?),
        // One that was done at once is over, and known by the audit trail alone.
        CancelOutcome::Absent => match app.insight().bulk_operation(op).await {
            Ok(operation) => web::json(&operation),
            Err(error) => Err(error.into()),
        },
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Undo {
    /// Why, for the audit trail
    reason: Option<Note>,
}

async fn undo(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(op): PathText<OpId>,
    Json(body): Json<Undo>,
) -> Result<Response> {
    let audit = Audit { reason: body.reason.map(Note::text), ..caller.audit("POST /v1/operations/{op}/undo") };
    let rules = app.rules();
    // Who may not hold a whole source may not take such a hold back either.
    for scope in rules.plane.insight().held_scopes(op).await? {
        holds::check_role(&caller, &scope)?;
    }
    accepted(&app, begun(&app, rules.plane.begin_undo(op, &audit)).await?).await
}
