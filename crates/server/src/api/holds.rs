//! Holds: what workers leave alone. A person sets and lifts them.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_control::Audit;
use redrive_control::shape::HoldShape;
use redrive_core::hold::{Hold, HoldScope};
use redrive_core::id::HoldId;
use redrive_core::key::{CustomerId, QueryName, Source};
use redrive_core::role::Role;
use redrive_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::description::Link;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Caller, Code, Json, Note, PathText, answering, json as answer, json_bytes};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/holds", Access::Viewer, "The holds in force", list).json::<Holds>(),
        Route::post("/v1/holds", Access::Operator, "Hold a source (admins), a customer of it or a query", set)
            .status(201)
            .json::<HoldShape>()
            .takes::<NewHold>()
            .refuses(&[Code::Unusable])
            .links(&[Link {
                name: "lift",
                operation: "delete_v1_holds_id",
                parameter: "id",
                from: "$response.body#/id",
            }]),
        Route::delete("/v1/holds/{id}", Access::Operator, "Lift a hold", lift).status(204),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Holds {
    holds: Vec<HoldShape>,
}

async fn list(State(app): State<App>) -> Result<Response> {
    let holds = app.insight().holds().await?;
    answer(&Holds { holds: holds.into_iter().map(HoldShape::from).collect() })
}

/// What is to be held, and until when: none means until it is lifted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewHold {
    source: Source,
    customer_id: Option<CustomerId>,
    query_name: Option<QueryName>,
    until: Option<Timestamp>,
    /// Why, for others who look
    reason: Option<Note>,
}

impl NewHold {
    fn scope(&self) -> Result<HoldScope> {
        let source = self.source.clone();
        match (&self.customer_id, &self.query_name) {
            (Some(customer), Some(query)) => Ok(HoldScope::Query(source, customer.clone(), query.clone())),
            (customer, None) => Ok(HoldScope::new(source, customer.clone())),
            (None, Some(_)) => Err(Error::unusable_field("/customer_id", "a hold on a query needs its customer_id")),
        }
    }
}

async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Json(new): Json<NewHold>,
) -> Result<Response> {
    let scope = new.scope()?;
    check_role(&caller, &scope)?;
    let rules = app.rules();
    if new.until.is_some_and(|until| until <= rules.plane.insight().now()) {
        return Err(Error::unusable_field("/until", "the hold would be over already; give a moment to come"));
    }
    let audit = Audit { reason: new.reason.map(Note::text), ..caller.audit("POST /v1/holds") };
    let body = |hold: &Hold| json_bytes(&HoldShape::from(hold.clone()));
    let (_, hold) = answering(StatusCode::CREATED, body, |_| None, rules.plane.hold(scope, new.until, &audit)).await?;
    Ok((StatusCode::CREATED, answer(&HoldShape::from(hold))?).into_response())
}

/// Whole sources are an admin's.
pub fn check_role(caller: &Caller, scope: &HoldScope) -> Result<()> {
    match (scope, caller.role) {
        (HoldScope::Source(_), Role::Admin) => Ok(()),
        (HoldScope::Customer(..) | HoldScope::Query(..), _) => Ok(()),
        (HoldScope::Source(_), Role::Viewer | Role::Operator | Role::Worker) => {
            Err(Error::of_code(Code::Forbidden, "a hold on a whole source needs the role admin; name a customer_id"))
        }
    }
}

async fn lift(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(id): PathText<HoldId>,
) -> Result<Response> {
    let rules = app.rules();
    let absent = || Error::not_found(format!("there is no hold {id}; GET /v1/holds lists those in force"));
    let holds = rules.plane.insight().holds().await?;
    let hold = holds.into_iter().find(|hold| hold.id == id).ok_or_else(absent)?;
    check_role(&caller, &hold.scope)?;
    let audit = caller.audit("DELETE /v1/holds/{id}");
    let lifted = rules.plane.lift_one(&hold, &audit).await?;
    match lifted {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(absent()),
    }
}
