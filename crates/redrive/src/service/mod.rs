//! What goes on until it is stopped: a worker by its configuration, its reload, the row that says that it is there, and what it shows
//! of itself.

mod manager;
mod metrics;
mod notifier;
mod presence;
mod reload;
mod worker;

pub use metrics::ShownMetrics;
pub use notifier::Notifier;
pub use presence::{Me, Presence, name};
pub use reload::{Reload, log, next};
pub use worker::{Generation, Service, ServiceEnd};
