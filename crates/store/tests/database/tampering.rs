//! Whoever changes the audit trail behind the store's back is found out, and where.

use redrive_core::lane::Lane;
use redrive_core::partition::ControlEvent;
use redrive_store::{Head, Operation, Verified};

use crate::raw::Raw;
use crate::steps::{changed, keys, pause};
use crate::support::TestStore;

const TABLES: [&str; 3] = ["operations", "operation_changes", "audit_head"];
const FORGED: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// Three operations: 1 made partitions (2, 3, 4), 5 paused two of them (6, 7), 8 resumed one (9).
async fn furnish(subject: &TestStore) -> Raw {
    let days = keys("ads", &["a"], 3);
    let wanted = days.iter().map(|key| subject.wanted(key.clone(), Lane::Backfill)).collect();
    let operation = Operation { reason: Some("gaps".to_owned()), ..subject.operation("state backfill enqueue") };
    subject.store.control().enqueue(&operation, wanted).await.unwrap();
    let operation = subject.operation("state pause");
    let mut items = Vec::new();
    for key in &days[..2] {
        items.push((subject.read(key).await, pause()));
    }
    subject.store.control().commit(&operation, items).await.unwrap();
    assert!(changed(&subject.ask(&days[0], ControlEvent::Resume).await));
    let raw = Raw::of(subject).await;
    for table in TABLES {
        raw.run(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(head) if head.seq == 9));
    raw
}

/// Tampers, looks where the chain is said to be broken, and puts everything back.
async fn broken_by(subject: &TestStore, raw: &Raw, tampering: &str) -> Option<i64> {
    raw.run(tampering).await;
    let found = subject.store.view().verify_audit().await.unwrap();
    put_back(raw).await;
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(_)), "not put back");
    match found {
        Verified::Whole(_) => None,
        Verified::Broken { seq, .. } => Some(seq),
    }
}

async fn put_back(raw: &Raw) {
    for table in TABLES {
        raw.run(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}")).await;
    }
}

fn operation_at(raw: &Raw, seq: i64) -> String {
    let (id, hash) = (raw.id(uuid::Uuid::from_u128(99)), raw.bytes(FORGED));
    format!(
        "INSERT INTO operations (seq, op_id, at, actor, command, filters, flags, hash) \
             VALUES ({seq}, {id}, 5, 'eve', 'state retry', '', '', {hash});"
    )
}

fn change_at(raw: &Raw, seq: i64) -> String {
    let hash = raw.bytes(FORGED);
    format!(
        "INSERT INTO operation_changes (seq, operation_seq, series_id, period, after, hash) \
             VALUES ({seq}, 1, 1, 20454, '', {hash});"
    )
}

/// CP-5.4, RP-8.5
async fn an_altered_row_is_named(subject: TestStore) {
    let raw = furnish(&subject).await;
    let (id, hash) = (raw.id(uuid::Uuid::from_u128(99)), raw.bytes(FORGED));
    let columns = [
        ("actor", "'eve'"),
        ("command", "'x'"),
        ("filters", "''"),
        ("flags", "''"),
        ("reason", "'x'"),
        ("at", "5"),
        ("op_id", &id),
        ("hash", &hash),
    ];
    for (column, value) in columns {
        let found = broken_by(&subject, &raw, &format!("UPDATE operations SET {column} = {value} WHERE seq = 5")).await;
        assert_eq!(found, Some(5), "{column}");
    }
    let columns = [
        ("operation_seq", "5"),
        ("series_id", "2"),
        ("period", "7"),
        ("before", "'{}'"),
        ("after", "'{}'"),
        ("hash", &hash),
    ];
    for (column, value) in columns {
        let altered = format!("UPDATE operation_changes SET {column} = {value} WHERE seq = 3");
        assert_eq!(broken_by(&subject, &raw, &altered).await, Some(3), "{column}");
    }
    let swapped = "UPDATE operation_changes SET after = (SELECT after FROM kept_operation_changes WHERE seq = 7), \
         period = (SELECT period FROM kept_operation_changes WHERE seq = 7) WHERE seq = 6";
    assert_eq!(broken_by(&subject, &raw, swapped).await, Some(6));
    let of_a_run = format!("UPDATE operation_changes SET series_id = NULL, period = NULL, run_id = {id} WHERE seq = 6");
    assert_eq!(broken_by(&subject, &raw, &of_a_run).await, Some(6), "it was about a partition");
    for column in ["source", "customer_id", "query_name"] {
        raw.run(&format!("UPDATE series SET {column} = {column} || 'x' WHERE series_id = 1")).await;
        let found = subject.store.view().verify_audit().await.unwrap();
        assert!(matches!(found, Verified::Broken { seq: 2, .. }), "{column}: {found:?}");
        let back =
            format!("UPDATE series SET {column} = substr({column}, 1, length({column}) - 1) WHERE series_id = 1");
        raw.run(&back).await;
    }
    raw.run("UPDATE series SET series_id = 77").await;
    let found = subject.store.view().verify_audit().await.unwrap();
    assert!(matches!(found, Verified::Broken { seq: 2, .. }), "a series that is gone: {found:?}");
}

/// CP-5.4
async fn nothing_is_not_the_same_as_an_empty_text(subject: TestStore) {
    let raw = furnish(&subject).await;
    let found = broken_by(&subject, &raw, "UPDATE operations SET reason = '' WHERE seq = 5").await;
    assert_eq!(found, Some(5), "a reason appeared");
    let found = broken_by(&subject, &raw, "UPDATE operation_changes SET before = '' WHERE seq = 3").await;
    assert_eq!(found, Some(3), "a state before it was made appeared");
}

/// CP-5.4
async fn a_deleted_row_is_named(subject: TestStore) {
    let raw = furnish(&subject).await;
    for (sql, seq) in [
        ("DELETE FROM operation_changes WHERE seq = 3", 3),
        ("DELETE FROM operations WHERE seq = 1", 1),
        ("DELETE FROM operations WHERE seq = 5", 5),
        ("DELETE FROM operation_changes WHERE seq = 9", 9),
        ("DELETE FROM operation_changes WHERE seq = 9; DELETE FROM operations WHERE seq = 8", 8),
        ("DELETE FROM operation_changes; DELETE FROM operations", 1),
        ("UPDATE operation_changes SET seq = 100 WHERE seq = 4", 4),
    ] {
        assert_eq!(broken_by(&subject, &raw, sql).await, Some(seq), "{sql}");
    }
}

/// CP-5.4
async fn a_row_beyond_the_head_is_named(subject: TestStore) {
    let raw = furnish(&subject).await;
    assert_eq!(broken_by(&subject, &raw, &change_at(&raw, 10)).await, Some(10));
    assert_eq!(broken_by(&subject, &raw, &operation_at(&raw, 12)).await, Some(12));
    assert_eq!(broken_by(&subject, &raw, &operation_at(&raw, 3)).await, Some(3), "between the others");
}

/// CP-5.4: an operation comes before its changes, also when both were forged.
async fn the_first_of_several_rows_beyond_the_head_is_named(subject: TestStore) {
    let raw = furnish(&subject).await;
    let both = operation_at(&raw, 10) + &change_at(&raw, 11);
    assert_eq!(broken_by(&subject, &raw, &both).await, Some(10));
    let stretched = change_at(&raw, 12) + &change_at(&raw, 10);
    assert_eq!(broken_by(&subject, &raw, &stretched).await, Some(10));
}

/// CP-5.4: the chain begins at 1; a listing would show a row before it all the same.
async fn a_row_before_the_first_is_found(subject: TestStore) {
    let raw = furnish(&subject).await;
    assert!(broken_by(&subject, &raw, &operation_at(&raw, 0)).await.is_some());
    assert!(broken_by(&subject, &raw, &change_at(&raw, -1)).await.is_some());
}

/// CP-5.4
async fn a_changed_head_is_found(subject: TestStore) {
    let raw = furnish(&subject).await;
    let hash = raw.bytes(FORGED);
    for (sql, seq) in [
        (format!("UPDATE audit_head SET hash = {hash}"), 9),
        (format!("UPDATE audit_head SET hash = {}", raw.bytes("00")), 9),
        ("UPDATE audit_head SET seq = 12".to_owned(), 10),
        ("UPDATE audit_head SET seq = 8".to_owned(), 8),
        ("UPDATE audit_head SET seq = 8, hash = (SELECT hash FROM operations WHERE seq = 8)".to_owned(), 9),
    ] {
        assert_eq!(broken_by(&subject, &raw, &sql).await, Some(seq), "{sql}");
    }
}

const ALL_GONE: &str = "DELETE FROM operation_changes; DELETE FROM operations;";
const TAIL_GONE: &str = "DELETE FROM operation_changes WHERE seq = 9; DELETE FROM operations WHERE seq = 8;";

/// CP-5.4: a trail that is whole in itself, and is not the one whose head was noted outside of the database.
async fn a_head_that_was_noted_finds_what_is_whole_in_itself(subject: TestStore) {
    let raw = furnish(&subject).await;
    let noted = subject.store.view().audit_head().await.unwrap();
    let noted: Head = noted.to_string().parse().unwrap();
    let against = async || subject.store.view().verify_audit_against(noted.clone()).await.unwrap();
    assert!(matches!(against().await, Verified::Whole(_)));
    let zeros = raw.bytes(&"00".repeat(32));
    let cut =
        format!("{TAIL_GONE} UPDATE audit_head SET seq = 7, hash = (SELECT hash FROM operation_changes WHERE seq = 7)");
    let emptied = format!("{ALL_GONE} UPDATE audit_head SET seq = 0, hash = {zeros}");
    for (tampering, seq) in [(&cut, 8), (&emptied, 1)] {
        raw.run(tampering).await;
        assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(_)), "whole in itself");
        let found = against().await;
        assert!(matches!(found, Verified::Broken { seq: at, .. } if at == seq), "{tampering}: {found:?}");
        put_back(&raw).await;
    }
    // Emptied, and filled with other operations beyond the noted row.
    raw.run(&emptied).await;
    let more = keys("ads", &["b"], 12).iter().map(|key| subject.wanted(key.clone(), Lane::Backfill)).collect();
    subject.store.control().enqueue(&subject.operation("state backfill enqueue"), more).await.unwrap();
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(head) if head.seq == 13));
    assert!(matches!(against().await, Verified::Broken { seq: 9, .. }));
    put_back(&raw).await;
    // What is found without a noted head is found with one.
    let swapped = "UPDATE operation_changes SET after = (SELECT after FROM kept_operation_changes WHERE seq = 7), \
         period = (SELECT period FROM kept_operation_changes WHERE seq = 7) WHERE seq = 6";
    for (tampering, seq) in [
        ("UPDATE operations SET actor = 'eve' WHERE seq = 5", 5),
        (swapped, 6),
        ("DELETE FROM operations WHERE seq = 5", 5),
        ("DELETE FROM audit_head", 0),
        (ALL_GONE, 1),
        (&change_at(&raw, 10), 10),
        (&operation_at(&raw, 3), 3),
    ] {
        raw.run(tampering).await;
        let found = against().await;
        assert!(matches!(found, Verified::Broken { seq: at, .. } if at == seq), "{tampering}: {found:?}");
        put_back(&raw).await;
    }
    // The trail grows, and the noted head stays in it.
    let more = keys("ads", &["c"], 2).iter().map(|key| subject.wanted(key.clone(), Lane::Backfill)).collect();
    subject.store.control().enqueue(&subject.operation("state backfill enqueue"), more).await.unwrap();
    assert!(matches!(against().await, Verified::Whole(head) if head.seq == 12));
}

crate::on_both_databases!(
    a_head_that_was_noted_finds_what_is_whole_in_itself,
    an_altered_row_is_named,
    nothing_is_not_the_same_as_an_empty_text,
    a_deleted_row_is_named,
    a_row_beyond_the_head_is_named,
    the_first_of_several_rows_beyond_the_head_is_named,
    a_row_before_the_first_is_found,
    a_changed_head_is_found,
);
