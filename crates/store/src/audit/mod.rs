//! The audit trail: who did what, when, to which partitions and runs, with before and after; one hash chain over all of it.

mod chain;
mod changes;
mod operations;
mod snapshot;

pub use chain::{Head, NotAHead, Verified};
pub use changes::{AuditedChange, Subject};
pub use operations::{Operation, PastOperation};

pub(crate) use chain::head;
pub(crate) use changes::{NewChange, PlacedSubject, WrittenChange, record};
pub(crate) use operations::record_alone;

/// What a fragment of a statement about the trail stands for.
pub(crate) fn fragment(name: &str) -> Option<&'static str> {
    match name {
        "operation" => Some(&operations::COLUMNS),
        "change" => Some(changes::COLUMNS),
        _ => None,
    }
}
