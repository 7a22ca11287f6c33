//! What Prometheus scrapes: gauges from bounded queries, asked at most every ten seconds, and what this process has counted: its own
//! requests, and what its worker, its daemon and its callers did.
//! No customer, key or run is a label.

mod gauges;
mod requests;
mod standalone;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redrive_metrics::{Kind, Metrics as Work, Page, number};
use tokio::sync::Mutex;

use crate::app::App;
use crate::error::Result;
pub(crate) use requests::Requests;
pub use standalone::metrics_router;

/// The type of the page.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long the answers of the database are told again.
const FRESH: Duration = Duration::from_secs(10);

/// What the server has counted, and what it knows of the database.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) requests: Requests,
    streams: AtomicU64,
    gauges: Mutex<Option<(Instant, String)>>,
}

impl Metrics {
    /// Counts a stream until the guard is dropped.
    pub(crate) fn stream(app: &App) -> StreamGuard {
        app.metrics().streams.fetch_add(1, Ordering::Relaxed);
        StreamGuard(app.clone())
    }
}

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct StreamGuard(App);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.metrics().streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The whole page. Scrapes that come together wait for one look at the database.
pub(crate) async fn page(app: &App) -> Result<String> {
    let metrics = app.metrics();
    let mut known = metrics.gauges.lock().await;
    let fresh = known.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, text)| text.clone());
    let gauges = match fresh {
        Some(text) => text,
        None => {
            let text = gauges::read(app).await?;
            *known = Some((Instant::now(), text.clone()));
            text
        }
    };
    drop(known);
    let mut page = Page::default();
    let help = "Streams and long polls that are open.";
    page.family("redrive_streams", Kind::Gauge, help).add(&[], number(metrics.streams.load(Ordering::Relaxed)));
    metrics.requests.write(&mut page);
    write_work(&mut page, app.store().metrics());
    Ok(gauges + &page.into_text())
}

/// What any process has to show.
fn write_work(page: &mut Page, work: &Work) {
    Work::write_build(page, env!("CARGO_PKG_VERSION"));
    work.write(page);
}
