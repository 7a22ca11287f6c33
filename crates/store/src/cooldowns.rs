//! Cooldowns: one source's answer to one worker holds back all its siblings, on every machine.

use redrive_core::cooldown::Cooldown;
use redrive_core::key::{CustomerId, Source};
use redrive_core::time::Timestamp;

use crate::db::{Sql, Tx};
use crate::error::{Error, Result};

static SET: Sql = Sql::new(
    "/* cooldowns::set */ INSERT INTO cooldowns (source, customer_id, until, why) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (source, customer_id) DO UPDATE SET until = excluded.until, why = excluded.why \
     WHERE cooldowns.until < excluded.until",
);

/// Starts or prolongs a cooldown; a shorter one than is in force changes nothing.
pub(crate) async fn set(tx: &mut Tx<'_>, cooldown: &Cooldown) -> Result<()> {
    let customer = cooldown.customer_id.as_ref().map_or("", |customer| customer.as_str());
    let params = [
        cooldown.source.as_str().into(),
        customer.into(),
        cooldown.until.micros().into(),
        cooldown.why.as_ref().into(),
    ];
    tx.execute(&SET, &params).await.map(drop)
}

static IN_FORCE: Sql = Sql::new(
    "/* cooldowns::in_force */ SELECT source, customer_id, until, why FROM cooldowns WHERE until > CAST(?1 AS BIGINT) \
     ORDER BY source, customer_id",
);

pub(crate) async fn in_force(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Cooldown>> {
    let bad = |error: redrive_core::key::KeyError| Error::row("cooldowns", error);
    tx.rows(&IN_FORCE, &[now.micros().into()], |row| {
        let customer = row.text(1)?;
        Ok(Cooldown {
            source: row.text(0)?.try_into().map_err(bad)?,
            customer_id: (!customer.is_empty()).then(|| customer.try_into().map_err(bad)).transpose()?,
            until: Timestamp::from_micros(row.int(2)?),
            why: row.opt_text(3)?,
        })
    })
    .await
}

static LIFT: Sql = Sql::new("/* cooldowns::lift */ DELETE FROM cooldowns WHERE source = ?1 AND customer_id = ?2");

/// Ends the cooldowns in force of a customer, or of a source with all its customers; gives them.
pub(crate) async fn lift(
    tx: &mut Tx<'_>,
    source: &Source,
    customer: Option<&CustomerId>,
    now: Timestamp,
) -> Result<Vec<Cooldown>> {
    let mut lifted = in_force(tx, now).await?;
    lifted.retain(|cooldown| cooldown.is_of(source, customer));
    for cooldown in &lifted {
        let customer = cooldown.customer_id.as_ref().map_or("", |customer| customer.as_str());
        tx.execute(&LIFT, &[cooldown.source.as_str().into(), customer.into()]).await?;
    }
    Ok(lifted)
}
