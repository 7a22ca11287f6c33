//! What goes on until it is stopped: a worker by its configuration, its reload, and the row that says that it is there.

mod manager;
mod notifier;
mod presence;
mod reload;
mod worker;

pub use notifier::Notifier;
pub use presence::{Me, Presence, name};
pub use reload::{Reload, log, next};
pub use worker::{Generation, Service, ServiceEnd};
