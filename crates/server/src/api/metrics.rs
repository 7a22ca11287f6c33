//! The page that Prometheus scrapes.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::error::Result;
use crate::metrics;
use crate::routes::{Access, Gives, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/metrics", Access::Viewer, "How everything stands, as Prometheus reads it", scrape)
            .gives(Gives::Text),
    ]
}

async fn scrape(State(app): State<App>) -> Result<Response> {
    let text = metrics::page(&app).await?;
    Ok(([(CONTENT_TYPE, metrics::TEXT)], text).into_response())
}
