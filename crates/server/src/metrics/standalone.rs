//! What a worker or a daemon without a server shows: its own counters, and that it lives.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use redrive_metrics::{Metrics as Work, Page};

use super::{TEXT, write_work};

/// The routes `/metrics` and `/healthz` of a process that serves nothing else.
pub fn metrics_router(work: Work) -> Router {
    let scrape = move || async move { page(&work) };
    Router::new().route("/metrics", get(scrape)).route("/healthz", get(healthz))
}

fn page(work: &Work) -> impl IntoResponse + use<> {
    let mut page = Page::default();
    write_work(&mut page, work);
    ([(CONTENT_TYPE, TEXT)], page.into_text())
}

async fn healthz() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], "{\"status\":\"ok\"}")
}
