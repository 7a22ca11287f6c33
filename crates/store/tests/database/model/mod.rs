//! The whole store against a model: random operations on SQLite, PostgreSQL and `core::apply` in memory, which must all
//! answer the same and hold the same afterwards.
//!
//! What a claim chooses is the store's to decide. The model takes SQLite's choice and checks that it was allowed; the
//! comparison with PostgreSQL checks that both choose alike.

mod answer;
mod jobs;
mod memory;
mod op;
mod side;

use proptest::prelude::*;

use crate::model::memory::Memory;
use crate::model::op::{Op, ops};
use crate::model::side::Side;
use crate::property::{check, wait};
use crate::support::TestStore;

async fn same_in_all_three(ops: &[Op]) -> Result<(), TestCaseError> {
    let (mut sqlite, mut postgres) = (Side::new(TestStore::sqlite().await), Side::new(TestStore::postgres().await));
    let mut memory = Memory::default();
    for (nth, op) in ops.iter().enumerate() {
        let chosen = sqlite.apply(op, &memory).await;
        let other = postgres.apply(op, &memory).await;
        prop_assert_eq!(&chosen, &other, "SQLite and PostgreSQL answer {}: {:?} differently", nth, op);
        let expected = memory.apply(op, &chosen)?;
        prop_assert_eq!(&chosen, &expected, "the model answers {}: {:?} differently", nth, op);
        for side in [&sqlite, &postgres] {
            let kind = side.subject.store.kind();
            prop_assert_eq!(side.partitions().await, memory.partitions(), "{} after {}: {:?}", kind, nth, op);
            prop_assert_eq!(side.runs().await, &memory.runs[..], "{} after {}: {:?}", kind, nth, op);
        }
    }
    for side in [&sqlite, &postgres] {
        side.compare_the_rest(&memory).await?;
    }
    Ok(())
}

/// RP-2.1, RP-2.2, RP-2.3, RP-2.4, RP-2.6, RP-3.1, RP-3.2, RP-9.4, CP-6.2, CP-7.1, CP-7.2, CP-7.3, AR-6, AR-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_postgres_and_the_rules_agree_on_any_sequence() {
    check(16, ops(), |ops| wait(same_in_all_three(&ops)));
}
