//! The audit trail's hash chain, computed anew from its definition in `docs/ARCHITECTURE.md`.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::{Row, Subject, number, text};
use crate::table::Finding;
use crate::workloads::{Workload, hex};

const OPERATIONS: &str = "SELECT seq, hash, op_id, at, actor, command, filters, flags, reason FROM operations";
const CHANGES: &str = "
    SELECT c.seq, c.hash, c.operation_seq, s.source, s.customer_id, s.query_name, c.period, c.run_id, c.hold_id,
        c.before, c.after
    FROM operation_changes c
    LEFT JOIN series s ON s.series_id = c.series_id";

/// A field of a row as the chain has it.
type Field = Option<Vec<u8>>;

pub fn check(subject: &mut Subject<'_>) -> Vec<Finding> {
    let mut links: BTreeMap<i64, (String, Vec<Field>)> = BTreeMap::new();
    for row in subject.reader.rows(OPERATIONS) {
        links.insert(number(&row, 0), (text(&row, 1).to_owned(), operation(&row)));
    }
    for row in subject.reader.rows(CHANGES) {
        links.insert(number(&row, 0), (text(&row, 1).to_owned(), change(&row)));
    }
    let (mut hash, mut last) = ([0; 32], 0);
    for (seq, (written, fields)) in &links {
        hash = link(&hash, *seq, fields);
        if *seq != last + 1 || hex(&hash) != *written {
            return broken(format!("the audit chain breaks at row {seq}"));
        }
        last = *seq;
    }
    let head = subject.reader.rows("SELECT seq, hash FROM audit_head");
    match head.as_slice() {
        [head] if number(head, 0) == last && text(head, 1) == hex(&hash) => Vec::new(),
        _ => broken(format!("the audit chain ends at row {last}, and its head is {head:?}")),
    }
}

fn broken(what: String) -> Vec<Finding> {
    // Only changes of partitions are audited in a campaign.
    vec![Finding::of(Workload::Extract, what)]
}

/// The hash before it, its number, then each field with its length in front; an absent one has a length that none has.
fn link(before: &[u8; 32], seq: i64, fields: &[Field]) -> [u8; 32] {
    let mut bytes = before.to_vec();
    bytes.extend(seq.to_le_bytes());
    for field in fields {
        let length = field.as_ref().map_or(u32::MAX, |field| u32::try_from(field.len()).unwrap());
        bytes.extend(length.to_le_bytes());
        bytes.extend(field.iter().flatten());
    }
    Sha256::digest(&bytes).into()
}

fn operation(row: &Row) -> Vec<Field> {
    let mut fields = vec![Some(b"operation".to_vec()), id(row, 2), integer(row, 3)];
    fields.extend((4..=8).map(|column| words(row, column)));
    fields
}

/// A partition goes in by the names of its series, a run and a hold by their ids.
fn change(row: &Row) -> Vec<Field> {
    let about: Vec<Field> = match (&row[3], &row[7]) {
        (Some(_), _) => {
            let kind = Some(b"partition".to_vec());
            vec![kind, integer(row, 2), words(row, 3), words(row, 4), words(row, 5), integer(row, 6)]
        }
        (None, Some(_)) => vec![Some(b"run".to_vec()), integer(row, 2), id(row, 7)],
        (None, None) => vec![Some(b"hold".to_vec()), integer(row, 2), id(row, 8)],
    };
    [about, vec![words(row, 9), words(row, 10)]].concat()
}

fn words(row: &Row, column: usize) -> Field {
    row[column].as_ref().map(|text| text.as_bytes().to_vec())
}

fn integer(row: &Row, column: usize) -> Field {
    Some(number(row, column).to_le_bytes().to_vec())
}

fn id(row: &Row, column: usize) -> Field {
    let digits = text(row, column);
    Some((0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap_or(0)).collect())
}
