//! The raw sink as the control plane has it: a view to read, opened when it is first needed. Only a retry asks it anything, so
//! that partitions can be looked at and paused while it is down.

use std::sync::Arc;

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

    /// The view. What could not be opened is tried again the next time.
    pub(crate) async fn view(&self) -> Result<&RawView> {
        Ok(self.opened.get_or_try_init(|| RawView::open(&self.url, &self.options)).await?)
    }
}
