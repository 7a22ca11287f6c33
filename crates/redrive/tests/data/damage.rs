//! The doctor on what somebody else did: each kind of damage is found and named, and the exit code says so.

use redrive_core::key::PartitionKey;
use serde_json::Value;

use crate::scene::{Sink, current_directory, furnish};
use crate::world::MigratedProgram;

struct Ward {
    world: MigratedProgram,
    days: Vec<PartitionKey>,
}

impl Ward {
    fn new(world: MigratedProgram) -> Self {
        let days = furnish(&world, &Sink::files(&world));
        world.json("doctor", 0);
        Self { world, days }
    }

    /// Runs SQL with `{run N}` for the blob of day N's current run.
    fn execute(&self, sql: &str) {
        let mut sql = sql.to_owned();
        for (nth, day) in self.days.iter().enumerate().filter(|(nth, _)| *nth < 2) {
            let run = self.world.read(day).state.current_run_id.unwrap().uuid();
            let literal = match self.world.database.server {
                Some(_) => format!("'{run}'::uuid"),
                None => format!("x'{}'", run.simple()),
            };
            sql = sql.replace(&format!("{{run {}}}", nth + 1), &literal);
        }
        self.world.execute(&sql);
    }

    /// Asserts that the doctor finds exactly these, by check, word and day.
    fn finds(&self, expected: &[(&str, &str, &str)]) -> Value {
        let report = self.world.json("doctor", 1);
        let all = report["breaches"].as_array().unwrap();
        let text = |broken: &Value, field: &str| broken[field].as_str().unwrap_or_default().to_owned();
        let found: Vec<_> =
            all.iter().map(|b| (text(b, "check"), text(b, "breach"), text(b, "logical_date"))).collect();
        let wanted: Vec<_> = expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
        assert_eq!(found, wanted, "{report:#}");
        report
    }
}

/// Every byte of a manifest counts, also those that say nothing of the parts.
fn a_manifest_with_one_other_byte(world: MigratedProgram) {
    let ward = Ward::new(world);
    let file = current_directory(&ward.world, &ward.days[0]).join("_manifest.json");
    let hash = redrive_store::raw::Sha256::of(&std::fs::read(&file).unwrap());
    ward.execute(&format!(
        "UPDATE run_ends SET metrics = '{{\"manifest_sha256\":\"{hash}\"}}' WHERE run_id = {{run 1}}"
    ));
    ward.world.json("doctor", 0);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"extractor\": \"", "\"extractor\": \"not ")).unwrap();
    let report = ward.finds(&[("raw data", "manifest_hash", "2026-01-01")]);
    assert!(report["breaches"][0]["says"].as_str().unwrap().contains("it was changed afterwards"), "{report}");
    ward.world.json("doctor --quick", 1);
}

fn a_part_with_one_wrong_byte(world: MigratedProgram) {
    let ward = Ward::new(world);
    let file = current_directory(&ward.world, &ward.days[0]).join("part-00000.jsonl.zst");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let report = ward.finds(&[("raw data", "damaged", "2026-01-01")]);
    assert!(report["breaches"][0]["says"].as_str().unwrap().contains("has sha256"), "{report}");
    // What is not read is not found, and it is said that it was not read.
    let quick = ward.world.json("doctor --quick", 0);
    assert!(quick["checks"].to_string().contains("not read (--quick)"), "{quick}");
}

fn a_part_that_is_gone(world: MigratedProgram) {
    let ward = Ward::new(world);
    let file = current_directory(&ward.world, &ward.days[1]).join("part-00000.jsonl.zst");
    std::fs::remove_file(&file).unwrap();
    let report = ward.finds(&[("raw data", "damaged", "2026-01-02")]);
    assert!(report["breaches"][0]["says"].as_str().unwrap().contains("is missing"), "{report}");
    let quick = ward.world.json("doctor --quick", 1);
    assert_eq!(quick["breaches"][0]["breach"], "damaged", "{quick}");
    std::fs::write(&file, "short").unwrap();
    let quick = ward.world.json("doctor --quick", 1);
    assert!(quick["breaches"][0]["says"].as_str().unwrap().contains("has 5 bytes"), "{quick}");
}

fn a_manifest_that_is_gone(world: MigratedProgram) {
    let ward = Ward::new(world);
    std::fs::remove_file(current_directory(&ward.world, &ward.days[0]).join("_manifest.json")).unwrap();
    ward.finds(&[("raw data", "damaged", "2026-01-01")]);
}

/// Rewrites a manifest as `change` has it.
fn rewrite(ward: &Ward, change: impl Fn(&mut Value)) {
    let file = current_directory(&ward.world, &ward.days[0]).join("_manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    std::fs::write(&file, manifest.to_string()).unwrap();
}

fn a_manifest_of_a_failed_attempt(world: MigratedProgram) {
    let ward = Ward::new(world);
    rewrite(&ward, |manifest| {
        manifest["outcome"] = serde_json::json!({"state": "failed", "error_class": "final", "message": "no"});
    });
    ward.finds(&[("raw data", "failed_manifest", "2026-01-01")]);
}

fn a_manifest_with_another_fence_or_of_another_run(world: MigratedProgram) {
    let ward = Ward::new(world);
    rewrite(&ward, |manifest| manifest["fence"] = "019a0000-0000-7000-8000-000000000002".into());
    ward.finds(&[("raw data", "fence", "2026-01-01")]);
    rewrite(&ward, |manifest| manifest["run_id"] = "019a0000-0000-7000-8000-000000000002".into());
    ward.finds(&[("raw data", "manifest", "2026-01-01")]);
}

fn a_record_count_that_was_changed(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("UPDATE partitions SET record_count = 4 WHERE period = 20455");
    ward.finds(&[("raw data", "record_count", "2026-01-02")]);
}

/// RP-3.1
fn an_attempt_count_that_was_changed(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("UPDATE partitions SET attempt_count = 3 WHERE period = 20456");
    ward.finds(&[("partitions", "attempt_count", "2026-01-03")]);
}

/// RP-3.2
fn a_second_verdict_for_one_attempt(world: MigratedProgram) {
    let ward = Ward::new(world);
    // The accepted run is also told to have failed.
    ward.execute(
        "INSERT INTO run_failures (run_id, attempt, failed_at, error_class, error_message) \
         VALUES ({run 1}, 1, 1, 'final', 'no')",
    );
    ward.finds(&[("partitions", "history", "2026-01-01")]);
    ward.execute("DELETE FROM run_failures WHERE failed_at = 1");
    // Two runs claim to be its first attempt.
    ward.execute("UPDATE run_ends SET attempt = 1 WHERE run_id = {run 2}");
    ward.finds(&[("partitions", "attempt_number", "2026-01-02")]);
}

/// RP-9.3
fn a_current_run_of_another_partition(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("UPDATE partitions SET current_run_id = {run 2} WHERE period = 20454");
    ward.finds(&[("partitions", "foreign_run", "2026-01-01"), ("raw data", "damaged", "2026-01-01")]);
}

fn a_current_run_that_was_rejected(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute(
        "UPDATE partitions SET current_run_id = (SELECT run_id FROM runs WHERE verdict = 'failed' \
         AND period = 20455) WHERE period = 20455",
    );
    ward.finds(&[("partitions", "not_accepted", "2026-01-02"), ("raw data", "failed_manifest", "2026-01-02")]);
}

/// RP-9.4
fn an_active_run_that_does_not_exist(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("DELETE FROM run_claims");
    ward.finds(&[("partitions", "not_running", "2026-01-05")]);
}

/// RP-9.4
fn a_running_run_that_its_partition_does_not_know(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("DELETE FROM partition_control WHERE period = 20458");
    ward.finds(&[("partitions", "unclaimed", "2026-01-05"), ("partitions", "lost", "2026-01-05")]);
}

fn a_running_run_of_no_partition(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("DELETE FROM partition_control WHERE period = 20458");
    ward.execute("DELETE FROM partitions WHERE period = 20458");
    let report = ward.finds(&[("attempts", "orphan", "")]);
    assert!(report["breaches"][0]["says"].as_str().unwrap().contains("2026-01-05"), "{report}");
}

fn a_changed_audit_row(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("UPDATE operations SET actor = 'somebody else'");
    let report = ward.finds(&[]);
    assert!(report["checks"].to_string().contains("broken at row 1"), "{report}");
}

/// Scripts can tell what could not be looked at from what is broken, and the former comes first.
fn a_sink_that_cannot_be_read_outweighs_a_broken_invariant(world: MigratedProgram) {
    let ward = Ward::new(world);
    ward.execute("UPDATE partitions SET attempt_count = 3 WHERE period = 20456");
    std::fs::rename(ward.world.home.file("raw"), ward.world.home.file("elsewhere")).unwrap();
    ward.world.home.write("raw", "a file");
    let report = ward.world.json("doctor", 6);
    assert_eq!(report["breaches"][0]["breach"], "attempt_count", "{report}");
}

/// Many are counted, and the first of them named; they fill more than one page.
fn more_damage_than_anybody_reads(world: MigratedProgram) {
    world.failures(1100, redrive_core::time::Timestamp::from_micros(1));
    let told = world.run("doctor");
    assert_eq!(told.code, 1, "{told}");
    let named = told.stdout.lines().filter(|line| line.starts_with("ads/111/query_00/")).count();
    assert_eq!(named, 20, "{told}");
    assert!(told.stdout.contains("fail  partitions     1100 of 1100 break an invariant"), "{told}");
    assert!(told.stdout.ends_with("and 1080 more; `-o json` names all of them\n"), "{told}");
    assert_eq!(world.json("doctor", 1)["breaches"].as_array().unwrap().len(), 1100);
}

redrive_fixture::on_both!(
    a_manifest_with_one_other_byte,
    a_part_with_one_wrong_byte,
    a_part_that_is_gone,
    a_manifest_that_is_gone,
    a_manifest_of_a_failed_attempt,
    a_manifest_with_another_fence_or_of_another_run,
    a_record_count_that_was_changed,
    an_attempt_count_that_was_changed,
    a_second_verdict_for_one_attempt,
    a_current_run_of_another_partition,
    a_current_run_that_was_rejected,
    an_active_run_that_does_not_exist,
    a_running_run_that_its_partition_does_not_know,
    a_running_run_of_no_partition,
    a_changed_audit_row,
    a_sink_that_cannot_be_read_outweighs_a_broken_invariant,
    more_damage_than_anybody_reads,
);
