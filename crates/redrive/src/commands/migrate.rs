//! `redrive migrate`: brings the schema up to date, under a lock.

use redrive_store::{Open, Store};

use super::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn run(context: &Context) -> Result<Exit> {
    let config = context.config()?;
    context.stop.in_order();
    let store = Store::open(&config.store, Open::AsIs, context.store_options(&config)).await?;
    let (from, to) = store.migrate().await?;
    let place = store.place();
    let versions = serde_json::json!({"store": place, "from": from, "to": to});
    output::one(&["store", "from", "to"], &versions, &context.global, || match from == to {
        true => format!("{place} is at version {to}"),
        false => format!("{place} went from version {from} to {to}"),
    })?;
    Ok(Exit::Done)
}
