//! Opening the raw sink that the database writes to. A place that is not that sink is refused, instead of being filled
//! with what would be missed elsewhere.

use redrive_store::raw::{RawSink, RawView};
use redrive_store::{Store, View};

use crate::config::Config;
use crate::error::Result;

/// Opens the sink to write.
pub async fn open_sink(config: &Config, store: &Store) -> Result<RawSink> {
    Ok(redrive_data::sink::open(&config.raw, &config.raw_options, &store.data()).await?)
}

/// Opens the sink to read.
pub async fn look_into_sink(config: &Config, view: &View) -> Result<RawView> {
    let raw = RawView::open(&config.raw, &config.raw_options.s3).await?;
    if let Some(known) = view.raw_sink().await? {
        raw.check_marker(known).await?;
    }
    Ok(raw)
}

/// Takes the configured place for the database's sink, whatever was there; gives its id.
pub async fn adopt_sink(config: &Config, store: &Store) -> Result<String> {
    let sink = RawSink::open_known(&config.raw, &config.raw_options, None).await?;
    match sink.id() {
        Some(id) => Ok(store.data().adopt_sink(id).await?.to_string()),
        None => Ok(String::new()),
    }
}
