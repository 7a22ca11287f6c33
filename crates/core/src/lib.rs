//! The rules of Redrive, pure: no I/O, no async, no clock.
//!
//! [`partition::apply`] and [`run::apply`] are the only functions that move anything; [`retry::next`] is the only one
//! that decides when. Everything else here is what they speak of.

pub mod any_of;
pub mod breaker;
pub mod calendar;
pub mod cause;
pub mod classify;
pub mod clock;
pub mod count;
pub mod episode;
pub mod failure;
pub mod filter;
pub mod fingerprint;
pub mod hold;
pub mod id;
pub mod invariants;
pub mod key;
pub mod lane;
pub mod notice;
pub mod outlook;
pub mod pace;
pub mod partition;
pub mod process;
pub mod reason;
pub mod refusal;
pub mod retry;
pub mod role;
pub mod run;
pub mod safety;
mod schema;
pub mod share;
pub mod sign_in;
pub mod text;
pub mod time;
pub mod validation;
pub mod whole;
mod word;

pub use word::UnknownWord;
