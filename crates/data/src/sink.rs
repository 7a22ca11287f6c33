//! Opening the raw sink that the database writes to. A place that is not that sink is refused, instead of being filled with
//! what would be missed elsewhere.

use redrive_store::DataStore;
use redrive_store::raw::{RawOptions, RawSink, RawUrl};

use crate::error::Error;

/// Opens the sink to write. The first writer of a database leaves a marker in the sink, and the database keeps its id.
pub async fn open(url: &RawUrl, options: &RawOptions, data: &DataStore) -> Result<RawSink, Error> {
    let known = data.view().raw_sink().await?;
    let sink = RawSink::open_known(url, options, known).await?;
    if known.is_none()
        && let Some(id) = sink.id()
    {
        let kept = data.keep_sink(id).await?;
        // Another writer may have been first, with another place.
        sink.view().check_marker(kept).await?;
    }
    Ok(sink)
}
