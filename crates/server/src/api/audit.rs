//! The audit trail: who did what, with every change, and whether the chain is whole.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::shape::{ChangeShape, OperationShape, VerifiedShape};
use redrive_control::{Insight, OperationFilter, dates};
use redrive_core::id::OpId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{List, PAGING, Page, Param, ParamKind, Params, PathText, answer, bad_param, json, paged};

const FILTER: &[Param] = &[
    Param::new("actor", ParamKind::Text, "Only of this actor"),
    Param::new("since", ParamKind::Time, "Only from this moment or day on"),
    Param::new("operation", ParamKind::Text, "Only with this word in the command, such as retry"),
];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/audit", Access::Viewer, "Operations, the newest first", list)
            .query(&[FILTER, PAGING])
            .list::<Operations>(),
        Route::get("/v1/audit/{op}", Access::Viewer, "An operation, with what it changed", one)
            .query(&[PAGING])
            .gives(Gives::json_or_lines::<Operation>()),
        Route::get("/v1/audit/verify", Access::Viewer, "Whether the trail's chain is whole", verify)
            .json::<VerifiedShape>(),
    ]
}

struct Operations {
    insight: Insight,
    filter: OperationFilter,
}

impl List for Operations {
    type Row = OperationShape;
    type Key = i64;
    const NOUN: &'static str = "operations";

    fn mark(&self) -> String {
        format!("{:?}", self.filter)
    }

    async fn page(&self, before: Option<i64>, limit: u32) -> Result<Page<OperationShape, i64>> {
        let (rows, next) = self.insight.operations_before(&self.filter, before, limit).await?;
        Ok(Page { rows: rows.into_iter().map(OperationShape::from).collect(), next })
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    let insight = app.insight();
    let since = params.get("since").map(|text| dates::first_moment(text, insight.now()));
    let filter = OperationFilter {
        actor: params.get("actor").map(str::to_owned),
        since: since.transpose().map_err(|why| bad_param("since", &why))?,
        verb: params.get("operation").map(str::to_owned),
    };
    answer(Operations { insight, filter }, &params, &headers).await
}

/// What an operation changed, in the order of the trail.
struct Changes {
    insight: Insight,
    op_id: OpId,
}

impl List for Changes {
    type Row = ChangeShape;
    type Key = i64;
    const NOUN: &'static str = "changes";

    fn mark(&self) -> String {
        self.op_id.to_string()
    }

    async fn page(&self, after: Option<i64>, limit: u32) -> Result<Page<ChangeShape, i64>> {
        let found = self.insight.view().changes(self.op_id, after.unwrap_or(0), limit).await?;
        let page = Page::of(found, limit, |(seq, _)| *seq, |(_, change)| ChangeShape::try_from(change));
        Ok(Page { rows: page.rows.into_iter().collect::<Result<_, _>>()?, next: page.next })
    }
}

/// An operation of the audit trail, and a page of what it changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditedOperation")]
struct Operation {
    #[serde(flatten)]
    operation: OperationShape,
    changes: Vec<ChangeShape>,
    next: Option<String>,
}

async fn one(
    State(app): State<App>,
    PathText(op_id): PathText<OpId>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response> {
    let insight = app.insight();
    let absent = || Error::not_found(format!("there is no operation {op_id}; GET /v1/audit lists them"));
    let operation = insight.view().operation(op_id).await?.ok_or_else(absent)?;
    let changes = Changes { insight, op_id };
    match paged(changes, &params, &headers).await? {
        Ok((page, next)) => json(&Operation { operation: OperationShape::from(operation), changes: page.rows, next }),
        Err(lines) => Ok(lines),
    }
}

async fn verify(State(app): State<App>) -> Result<Response> {
    json(&VerifiedShape::from(app.insight().view().verify_audit().await?))
}
