//! The checker can see: each thing that must not be is done to a world in which all is well, and found.

use crate::world::World;

/// Each of these must not be, and what the checker says of it.
const STATEMENTS: [(&str, &str); 12] = [
    ("UPDATE partitions SET attempt_count = attempt_count + 1 WHERE period = 20454", "verdicts"),
    ("UPDATE partitions SET status = 'pending' WHERE period = 20455", "its status is pending"),
    ("UPDATE partitions SET current_run_id = zeroblob(16) WHERE period = 20456", "was accepted last"),
    ("UPDATE partitions SET record_count = 1 WHERE period = 20457 AND status = 'success'", "record_count is another"),
    ("DELETE FROM partitions WHERE period = 20458", "was asked for and is not there"),
    ("UPDATE run_ends SET started_at = 0 WHERE workload = 'extract'", "had ended"),
    ("UPDATE run_ends SET verdict = NULL WHERE workload = 'process' AND state = 'done'", "neither one verdict"),
    ("UPDATE run_ends SET retry_count = 12 WHERE workload = 'process'", "more often than the policy"),
    ("UPDATE run_ends SET attempt = attempt + 1 WHERE workload = 'process'", "did not end once each"),
    ("UPDATE settings SET value = 'x' WHERE setting_id = (SELECT min(setting_id) FROM settings)", "settings are there"),
    ("UPDATE operations SET actor = 'x' WHERE seq = 1", "the audit chain breaks at row 1"),
    ("DELETE FROM stanzas WHERE stanza_id = (SELECT max(stanza_id) FROM stanzas)", "belong to nothing"),
];

pub fn all(world: &mut World) {
    in_the_sink(world);
    for (sql, says) in STATEMENTS {
        world.rig.subject.execute(sql);
        assert_said(world, says, sql);
    }
}

fn assert_said(world: &mut World, says: &str, after: &str) {
    let findings = world.check();
    assert!(findings.iter().any(|finding| finding.what.contains(says)), "after `{after}`: {findings:#?}");
}

fn in_the_sink(world: &mut World) {
    let current = "SELECT customer_id, logical_date, current_run_id FROM partition_state
        WHERE source = 'program' AND status = 'success' ORDER BY current_run_id LIMIT 2";
    let runs = world.reader.rows(current);
    let directory = |row: &Vec<Option<String>>| {
        let [customer, date, run] = [0, 1, 2].map(|column| row[column].clone().unwrap());
        let place = format!("customer_id={customer}/query_name=b/logical_date={date}/run_id={run}");
        world.rig.subject.home.file(&format!("raw/source=program/{place}"))
    };
    let (first, second) = (directory(&runs[0]), directory(&runs[1]));
    let part = first.join("part-00000.jsonl.zst");
    let mut bytes = std::fs::read(&part).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    std::fs::rename(second.join("_manifest.json"), second.join("elsewhere")).unwrap();
    assert_said(world, "its bytes are not those of the manifest", "a changed part");
    assert_said(world, "it was judged and has no manifest", "a manifest that is gone");
    let upload = world.reader.rows("SELECT object FROM uploads LIMIT 1")[0][0].clone().unwrap();
    std::fs::write(world.rig.subject.home.file("raw").join(upload), "x").unwrap();
    assert_said(world, "its bytes do not lie in the sink", "a changed upload");
}
