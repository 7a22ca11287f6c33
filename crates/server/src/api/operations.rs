//! Operations: how each stands, what became of its items, ending and undoing it.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::shape::{BulkItemShape, BulkOperationShape};
use redrive_control::{Audit, Insight};
use redrive_core::id::OpId;
use redrive_store::{CancelOutcome, ItemOutcome};
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::accepted;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{self, Caller, Json, List, PAGING, Page, Param, ParamKind, Params, PathText, answer, wrong};

const OUTCOME: &[Param] =
    &[Param::new("outcome", ParamKind::Word(&["changed", "skipped", "failed"]), "Only items with this outcome")];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/operations", Access::Viewer, "Operations, the newest first", list)
            .query(&[PAGING])
            .gives(Gives::List),
        Route::get("/v1/operations/{op}", Access::Viewer, "How an operation stands", one),
        Route::get("/v1/operations/{op}/items", Access::Viewer, "What became of each of its items", items)
            .query(&[OUTCOME, PAGING])
            .gives(Gives::List),
        Route::post("/v1/operations/{op}/cancel", Access::Operator, "End an operation after the step it is at", cancel),
        Route::post("/v1/operations/{op}/undo", Access::Operator, "Put back what nothing has touched since", undo)
            .status(202)
            .takes(undoing),
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
        let is_last = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let next = rows.last().map(|row| row.op_id).filter(|_| !is_last);
        Ok(Page { rows, next })
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
            let unknown = || wrong("outcome", &format!("{word:?} is unknown; it is one of changed, skipped, failed"));
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

fn undoing() -> Value {
    let properties = json!({"reason": {"type": ["string", "null"]}});
    json!({"application/json": {"schema": {"type": "object", "properties": properties, "additionalProperties": false}}})
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Undo {
    reason: Option<String>,
}

async fn undo(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(op): PathText<OpId>,
    Json(body): Json<Undo>,
) -> Result<Response> {
    let audit = Audit { reason: body.reason, ..caller.audit("POST /v1/operations/{op}/undo") };
    let rules = app.rules();
    if rules.plane.insight().bulk_operation(op).await?.operation == "hold" {
        return Err(Error::bad_request("an operation on holds is undone by `redrive state undo`"));
    }
    accepted(&app, rules.plane.begin_undo(op, &audit).await?).await
}
