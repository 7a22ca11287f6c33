//! A source, a customer of it or a query of that customer which workers leave alone.

use redrive_core::hold::{Hold, HoldKind};
use redrive_core::id::HoldId;
use redrive_core::key::{CustomerId, QueryName, Source};
use redrive_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HoldShape {
    pub id: HoldId,
    pub source: Source,
    /// None means all customers of the source.
    pub customer_id: Option<CustomerId>,
    /// None means all queries of the customer.
    pub query_name: Option<QueryName>,
    pub kind: HoldKind,
    pub since: Timestamp,
    /// None means until it is lifted.
    pub until: Option<Timestamp>,
    pub by: String,
    pub why: Option<String>,
}

impl From<Hold> for HoldShape {
    fn from(hold: Hold) -> Self {
        Self {
            id: hold.id,
            source: hold.scope.source().clone(),
            customer_id: hold.scope.customer_id().cloned(),
            query_name: hold.scope.query_name().cloned(),
            kind: hold.kind(),
            since: hold.since,
            until: hold.until,
            by: hold.by,
            why: hold.why,
        }
    }
}
