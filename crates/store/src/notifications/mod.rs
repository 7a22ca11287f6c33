//! What people are told: the outbox, its deliveries, and the episodes of failure groups.

mod delivery;
mod episodes;
mod outbox;

pub use delivery::{Delivery, Outbox};
pub use episodes::{EpisodeStep, OpenEpisode, RetriedGroups};
pub(crate) use outbox::add;
pub use outbox::{DeliveryState, Notification, OutboxDepth};
