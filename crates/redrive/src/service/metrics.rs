//! `--metrics`: what a worker or a daemon shows of itself to Prometheus. `redrive serve` has that among its routes.

use std::time::Duration;

use redrive_server::{Listener, metrics_router};
use tokio::task::JoinHandle;

use crate::commands::Context;
use crate::error::{Error, Result};
use crate::output;

/// A listener that ends with this.
#[derive(Debug)]
pub struct ShownMetrics(JoinHandle<()>);

impl ShownMetrics {
    /// Listens, where that is asked for. An address that is taken is an error at once, and not a gap in a dashboard.
    pub async fn begin(listen: Option<&str>, context: &Context) -> Result<Option<Self>> {
        let Some(listen) = listen else { return Ok(None) };
        let listener = Listener::bind(listen).await.map_err(Error::io(format!("cannot listen on {listen}")))?;
        if !context.global.quiet {
            output::note(&format!("metrics on http://{}/metrics", listener.address()));
        }
        let router = metrics_router(context.metrics.clone());
        let serving = listener.serve(router, std::future::pending(), Duration::ZERO);
        Ok(Some(Self(tokio::spawn(serving))))
    }
}

impl Drop for ShownMetrics {
    fn drop(&mut self) {
        self.0.abort();
    }
}
