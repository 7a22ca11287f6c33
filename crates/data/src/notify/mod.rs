//! Notifications on their way out: who is told of what, in which form, and how a sender works through the outbox.

mod command;
mod receiver;
mod sender;
mod signature;
mod slack;
mod web;

pub use receiver::{Receiver, ReceiverKind, ReceiverSettings};
pub use sender::{Sender, Sent};
