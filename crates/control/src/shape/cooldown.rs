//! A source, or one customer of it, that is left alone for a while.

use redrive_core::key::{CustomerId, Source};
use redrive_core::time::Timestamp;
use redrive_store::Cooldown;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CooldownShape {
    pub source: Source,
    /// None means all customers of the source.
    pub customer_id: Option<CustomerId>,
    pub until: Timestamp,
    pub why: Option<String>,
}

impl From<Cooldown> for CooldownShape {
    fn from(Cooldown { source, customer_id, until, why }: Cooldown) -> Self {
        Self { source, customer_id, until, why }
    }
}
