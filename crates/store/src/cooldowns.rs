//! Cooldowns as they are kept: what each means is `redrive_core::cooldown`'s.

use std::sync::Arc;

use redrive_core::cooldown::Cooldown;
use redrive_core::key::{CustomerId, KeyError, Source};
use redrive_core::time::Timestamp;

use crate::audit::{self, Operation};
use crate::db::{Batch, Column, Effect, Kind, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, DataStore, View, read, transact};

impl View {
    /// The cooldowns in force.
    pub async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        read!(self, "cooldowns", |tx, now| in_force(tx, *now))
    }
}

impl DataStore {
    /// Holds back a source, or one customer of it, until then.
    pub async fn cool_down(&self, cooldown: Cooldown) -> Result<()> {
        transact!(self.inner, "cool down", |tx, cooldown| set(tx, &cooldown).await)
    }
}

impl ControlStore {
    /// Ends cooldowns before their time, with a row in the audit trail; gives those that were in force.
    pub async fn lift_cooldowns(
        &self,
        operation: &Operation,
        source: &Source,
        customer: Option<&CustomerId>,
    ) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        let (operation, source, customer) = (operation.clone(), source.clone(), customer.cloned());
        transact!(self.inner, "lift cooldowns", |tx, operation, source, customer| {
            let lifted = lift(tx, &source, (*customer).as_ref(), now).await?;
            if !lifted.is_empty() {
                audit::record_alone(tx, &operation).await?;
                tx.wake();
            }
            Ok(lifted)
        })
    }
}

/// An empty customer stands for the whole source.
fn customer_or_empty(cooldown: &Cooldown) -> &str {
    cooldown.customer_id.as_ref().map_or("", |customer| customer.as_str())
}

static SET: Sql = Sql::new(
    "/* cooldowns::set */
     INSERT INTO cooldowns (source, customer_id, until, why)
     VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (source, customer_id) DO UPDATE SET until = excluded.until, why = excluded.why
     WHERE cooldowns.until < excluded.until",
);

/// Starts or prolongs a cooldown; a shorter one than is in force changes nothing.
async fn set(tx: &mut Tx<'_>, cooldown: &Cooldown) -> Result<()> {
    let params = [
        cooldown.source.as_str().into(),
        customer_or_empty(cooldown).into(),
        cooldown.until.micros().into(),
        cooldown.why.as_ref().into(),
    ];
    tx.execute(&SET, &params).await.map(drop)
}

static IN_FORCE: Sql = Sql::new(
    "/* cooldowns::in_force */
     SELECT source, customer_id, until, why
     FROM cooldowns
     WHERE until > CAST(?1 AS BIGINT)
     ORDER BY source, customer_id",
);

pub(crate) async fn in_force(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Cooldown>> {
    let bad = |error: KeyError| Error::row("cooldowns", error);
    tx.rows(&IN_FORCE, &[now.micros().into()], |row| {
        let mut row = row.cursor();
        let (source, customer) = (row.text()?, row.text()?);
        Ok(Cooldown {
            source: source.try_into().map_err(bad)?,
            customer_id: (!customer.is_empty()).then(|| customer.try_into().map_err(bad)).transpose()?,
            until: row.time()?,
            why: row.opt_text()?,
        })
    })
    .await
}

static LIFT: Batch = Batch::new(
    "/* cooldowns::lift */
     DELETE FROM cooldowns
     {using}
     WHERE source = @source AND customer_id = @customer_id",
    &[("source", Kind::Text), ("customer_id", Kind::Text)],
    Effect::All,
);

/// Ends the cooldowns in force of a customer, or of a source with all its customers; gives them.
async fn lift(
    tx: &mut Tx<'_>,
    source: &Source,
    customer: Option<&CustomerId>,
    now: Timestamp,
) -> Result<Vec<Cooldown>> {
    let mut lifted = in_force(tx, now).await?;
    lifted.retain(|cooldown| cooldown.is_of(source, customer));
    let columns = [
        Column::texts(&lifted, |cooldown| Some(cooldown.source.as_str())),
        Column::texts(&lifted, |cooldown| Some(customer_or_empty(cooldown))),
    ];
    tx.batch(&LIFT, &columns).await?;
    Ok(lifted)
}
