//! The audit trail: who did what, when, to which partitions, with before and after; one hash chain over all of it.

mod chain;
mod trail;

pub use chain::{Head, Verified};
pub use trail::{AuditedChange, Operation, PastOperation};

pub(crate) use trail::{WrittenChange, fragment, record, record_alone};
