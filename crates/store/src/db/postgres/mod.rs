//! PostgreSQL: a pool of connections, one more that listens for wake-ups, and the server's clock.
//!
//! No connection carries state from one transaction to the next, so a pooler may stand between: what a transaction needs
//! is set inside it, and locks end with it.

mod address;
mod batch;
mod clock;
mod deferred;
mod fault;
mod kind;
mod lent;
mod news;
mod schema;
mod server;
mod transaction;

pub(crate) use address::Address;
pub(super) use batch::batch;
pub(crate) use kind::{INDEX_PLANS_OF_SESSION, Planner};
pub use news::Listen;
pub(crate) use server::Postgres;
pub(crate) use transaction::PgTx;
