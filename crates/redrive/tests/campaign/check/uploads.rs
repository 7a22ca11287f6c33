//! Every upload whose bytes arrived was parsed to exactly what is in it, and its bytes lie in the sink as they were sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{Subject, number, text};
use crate::table::Finding;
use crate::workloads::{MAX_ATTEMPTS, Setting, Workload, hash};

const UPLOADS: &str = "
    SELECT r.run_id, r.state, r.retry_count, r.error_message, u.upload_no, u.sha256, u.object, u.bytes
    FROM runs r
    LEFT JOIN uploads u ON u.run_id = r.run_id
    WHERE r.workload = 'ingest'";
/// The ids of an upload's rows begin with its number.
const SETTINGS: &str = "
    SELECT t.setting_id / 4294967296, f.path, s.name, t.key, t.value
    FROM settings t
    JOIN stanzas s ON s.stanza_id = t.stanza_id
    JOIN files f ON f.file_id = s.file_id";
/// What lies there beside that: settings without a stanza, stanzas without a file.
const STRAY: &str = "
    SELECT (SELECT count(*) FROM settings t WHERE NOT EXISTS (SELECT 1 FROM stanzas s WHERE s.stanza_id = t.stanza_id))
        + (SELECT count(*) FROM stanzas s WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.file_id = s.file_id))";

/// The settings of each upload, by its number, in any order.
type Parsed = BTreeMap<i64, Vec<Setting>>;

pub fn check(subject: &mut Subject<'_>) -> Vec<Finding> {
    let parsed = parsed(subject);
    let mut objections = Vec::new();
    let mut complete = BTreeSet::new();
    for row in subject.reader.rows(UPLOADS) {
        let (run, state) = (text(&row, 0), text(&row, 1));
        let mut object = |what: &str| objections.push(format!("upload {run}: {what}: {row:?}"));
        if row[4].is_none() {
            // Its command was killed before the bytes had arrived; the run says so for ever.
            if state != "storing" {
                object("its bytes have not arrived, and it is not waiting for them");
            }
            continue;
        }
        let sha256 = text(&row, 5);
        let Some(expected) = subject.expected.archives.get(sha256) else {
            object("nobody has sent these bytes");
            continue;
        };
        let stored = fs::read(subject.folder.join("raw").join(text(&row, 6))).unwrap_or_default();
        if hash(&stored) != sha256 || i64::try_from(stored.len()).unwrap() != number(&row, 7) {
            object("its bytes do not lie in the sink");
        }
        let is_exhausted = number(&row, 2) >= MAX_ATTEMPTS - 1 && row[3].is_some();
        match state {
            "done" => {
                complete.insert(sha256.to_owned());
                let settings = parsed.get(&number(&row, 4)).map_or(&[][..], Vec::as_slice);
                let distinct: BTreeSet<Setting> = settings.iter().cloned().collect();
                if distinct.len() != settings.len() {
                    object("something of it is there twice");
                }
                if distinct != *expected {
                    object(&format!("{} of its {} settings are there", distinct.len(), expected.len()));
                }
            }
            "dead" if is_exhausted => {}
            _ => object("it is neither complete nor stopped with a reason"),
        }
    }
    let lost = subject.expected.archives.keys().filter(|sha256| !complete.contains(*sha256));
    objections.extend(lost.map(|sha256| format!("no upload of {sha256} is complete")));
    let stray = subject.reader.number(STRAY);
    if stray > 0 {
        objections.push(format!("{stray} rows belong to nothing"));
    }
    objections.into_iter().map(|what| Finding::of(Workload::Ingest, what)).collect()
}

fn parsed(subject: &mut Subject<'_>) -> Parsed {
    let mut parsed = Parsed::new();
    for row in subject.reader.rows(SETTINGS) {
        let column = |at| text(&row, at).to_owned();
        parsed.entry(number(&row, 0)).or_default().push((column(1), column(2), column(3), column(4)));
    }
    parsed
}
