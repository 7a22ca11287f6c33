//! `redrive migrate`: brings the schema up to date, under a lock.

use redrive_store::{Open, Store};

use super::Context;
use crate::cli::Format;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn run(context: &Context) -> Result<Exit> {
    let config = context.config()?;
    context.stop.in_order();
    let store = Store::open(&config.store, Open::AsIs, context.store_options(&config)).await?;
    let (from, to) = store.migrate().await?;
    let told = serde_json::json!({"store": store.place(), "from": from, "to": to});
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&told)?,
        Format::Csv => output::record(&["store", "from", "to"], &told)?,
        Format::Table if from == to => output::line(&format!("{} is at version {to}", store.place()))?,
        Format::Table => output::line(&format!("{} went from version {from} to {to}", store.place()))?,
    }
    Ok(Exit::Done)
}
