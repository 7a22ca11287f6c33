//! The table of routes: each with its method, its path, the least role that may call it, and whether it changes something.
//! The router and its gates, the description of the API and the tests of roles are all made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing;
use tower_http::csrf::{CsrfLayer, ProtectionError};

use crate::api;
use crate::app::App;
pub use crate::description::Gives;
use crate::error::Error;
pub use crate::route::Route;
pub use crate::web::Access;
use crate::web::{Code, Gate, around, gate, keyed};

/// Every route, part by part.
pub fn table() -> Vec<Route> {
    [
        api::health::routes(),
        api::metrics::routes(),
        api::events::routes(),
        api::problems::routes(),
        api::openapi::routes(),
        api::login::routes(),
        api::status::routes(),
        api::partitions::routes(),
        api::heatmap::routes(),
        api::groups::routes(),
        api::runs::routes(),
        api::submit::routes(),
        api::holds::routes(),
        api::uploads::routes(),
        api::upload::routes(),
        api::data::routes(),
        api::audit::routes(),
        api::worker::routes(),
        api::outside::routes(),
        api::plans::routes(),
        api::state::routes(),
        api::operations::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The router over the table. Whatever is not in it needs somebody who is signed in, and is not found.
pub fn router(app: &App) -> Router {
    let mut router = Router::new();
    for route in table() {
        let gated = middleware::from_fn_with_state((app.clone(), route.gate()), gate);
        let handler = match route.is_keyed() {
            true => route.handler.layer(middleware::from_fn_with_state(app.clone(), keyed)),
            false => route.handler,
        };
        router = router.route(&app.url(route.path), handler.layer(gated));
    }
    let stranger = Gate { access: Access::Viewer, changes: false, query: &[] };
    let strangers = middleware::from_fn_with_state((app.clone(), Arc::new(stranger)), gate);
    router
        .method_not_allowed_fallback(method_not_allowed)
        .fallback_service(routing::any(absent).layer(strangers).with_state(app.clone()))
        .layer(same_site(app))
        .layer(middleware::from_fn_with_state(app.clone(), around))
        .with_state(app.clone())
}

type Rejection = fn(ProtectionError) -> Response;

/// Refuses what a page of another origin had a browser send: by Sec-Fetch-Site, otherwise by Origin.
fn same_site(app: &App) -> CsrfLayer<Rejection> {
    let origin = app.settings().public_url.as_ref().map(|url| url.origin().ascii_serialization());
    let layer = match origin.map(|origin| CsrfLayer::new().add_trusted_origin(origin)) {
        Some(Ok(layer)) => layer,
        Some(Err(error)) => {
            tracing::warn!(%error, "public_url is no origin that a browser would send");
            CsrfLayer::new()
        }
        None => CsrfLayer::new(),
    };
    layer.with_rejection_response(cross_site as Rejection)
}

fn cross_site(_: ProtectionError) -> Response {
    let detail =
        "a browser sent this from a page of another origin; set server.public_url where a proxy changes the name";
    Error::of_code(Code::CrossSite, detail).into_response()
}

async fn absent(uri: Uri, State(app): State<App>) -> Error {
    let todo = format!("the description of the API is at {}", app.url("/openapi.json"));
    Error::not_found(format!("there is nothing at {:?}; {todo}", uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Error {
    Error::of_code(Code::MethodNotAllowed, format!("{} does not take {method}", uri.path()))
}
