//! The raw sink as the control plane has it: a view to read, opened when it is first needed. Only a retry asks it anything, so
//! that partitions can be looked at and paused while it is down.

use std::sync::Arc;

use redrive_store::View;
use redrive_store::raw::{RawUrl, RawView, S3Options};
use tokio::sync::OnceCell;

use crate::error::Result;

#[derive(Debug, Clone)]
pub struct Sink {
    url: RawUrl,
    options: S3Options,
    opened: Arc<OnceCell<RawView>>,
}

impl Sink {
    pub fn new(url: RawUrl, options: S3Options) -> Self {
        Self { url, options, opened: Arc::default() }
    }

    /// Opens the sink that the database writes to. What could not be opened is tried again the next time.
    pub(crate) async fn view(&self, store: &View) -> Result<&RawView> {
        let open = async || {
            let raw = RawView::open(&self.url, &self.options).await?;
            if let Some(known) = store.raw_sink().await? {
                raw.check_marker(known).await?;
            }
            Ok(raw)
        };
        self.opened.get_or_try_init(open).await
    }
}
