//! Cooldowns: one source's "slow down" holds back its siblings on every machine.

use redrive_core::hold::{Cause, Hold, HoldScope};
use redrive_core::key::{CustomerId, Source};
use redrive_core::time::Timestamp;

use super::row::{HOLD, NAMES};
use crate::db::columns::columns;
use crate::db::{Batch, Effect};
use crate::error::Result;
use crate::handles::{DataStore, transact};

/// A source asked that it, or one customer of it, be left alone until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooldown {
    pub source: Source,
    /// None holds back the whole source.
    pub customer_id: Option<CustomerId>,
    pub until: Timestamp,
    pub why: Option<String>,
}

impl DataStore {
    /// Starts or prolongs a cooldown. A shorter one than is in force changes nothing.
    pub async fn cool_down(&self, cooldown: Cooldown) -> Result<()> {
        let now = self.inner.now();
        let Cooldown { source, customer_id, until, why } = cooldown;
        let hold = Hold {
            id: self.inner.ids.hold(now),
            by: source.to_string(),
            scope: HoldScope::new(source, customer_id),
            cause: Cause::Cooldown,
            since: now,
            until: Some(until),
            why,
        };
        transact!(self.inner, "cool down", |tx, hold| tx.batch(&PROLONG, &columns(&HOLD, &[&*hold])).await.map(drop))
    }
}

static PROLONG: Batch = Batch::new(
    "/* holds::prolong */
     INSERT INTO holds ({columns})
     {values}
     ON CONFLICT (source, customer_id, query_name, kind) DO UPDATE
     SET until = excluded.until, why = excluded.why,
         since = CASE WHEN holds.until <= excluded.since THEN excluded.since ELSE holds.since END
     WHERE holds.until < excluded.until",
    &NAMES,
    Effect::All,
);
