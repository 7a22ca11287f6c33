//! What every file of this suite needs: the store under test, and keys.

use redrive_core::key::PartitionKey;
pub use redrive_fixture::{LEASE, START, TestStore};

pub fn key(source: &str, customer: &str, query: &str, date: &str) -> PartitionKey {
    PartitionKey::new(source, customer, query, date).unwrap()
}
