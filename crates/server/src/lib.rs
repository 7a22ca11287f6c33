//! The HTTP server: translates requests into calls of the control and the data plane, and what they give into JSON.
//!
//! It decides nothing about partitions and runs. What it decides is its own: who may call what, how much a request may
//! send, and how long it may take. Every route stands in one table ([`routes::table`]).

mod api;
mod app;
mod auth;
mod background;
mod description;
mod error;
mod events;
mod metrics;
mod route;
mod settings;
mod web;

pub mod routes;

pub use app::{App, Rules};
pub use auth::{ForwardAuth, Network, NoNetwork, Secret};
pub use background::work;
pub use description::describe;
pub use error::{Error, Result};
pub use metrics::metrics_router;
pub use settings::{BasePath, NoBasePath, Settings};
pub use web::{Code, Listener, Problem, Role, is_loopback_name};
