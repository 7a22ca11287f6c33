//! `data ls`: what may be read, in every form.

use std::path::PathBuf;

use redrive_core::key::PartitionKey;
use redrive_core::partition::ControlEvent;
use redrive_core::retry::RetryPolicy;
use serde_json::json;

use crate::scene::{Sink, accept, current_directory, furnish, text};
use crate::world::{HOUR, MigratedProgram, january, key};

/// RP-9.2, RP-6.2
fn only_current_runs_of_successes_are_listed(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let listed = world.json("data ls", 0);
    let expected: Vec<_> = days[..2]
        .iter()
        .map(|key| {
            let directory = current_directory(&world, key).display().to_string();
            json!({
                "source": "ads", "customer_id": "111", "query_name": "daily",
                "logical_date": key.logical_date.to_string(), "run_id": world.read(key).state.current_run_id.unwrap(),
                "records": 3, "bytes": text(key, 1).len(), "path": directory, "files": [format!("{directory}/part-00000.jsonl.zst")],
            })
        })
        .collect();
    assert_eq!(listed, json!({"data": expected}));
    let lines = world.run("data ls -o jsonl").done().stdout;
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, expected);
    let csv = world.run("data ls -o csv --until 2026-01-01").done().stdout;
    let run = world.read(&days[0]).state.current_run_id.unwrap();
    let (directory, bytes) = (current_directory(&world, &days[0]), text(&days[0], 1).len());
    let row = format!("ads,111,daily,2026-01-01,{run},3,{bytes},1,{}", directory.display());
    assert_eq!(csv, format!("source,customer_id,query_name,logical_date,run_id,records,bytes,parts,path\n{row}\n"));
    let table = world.run("data ls --source ads").done().stdout;
    assert_eq!(table.lines().count(), 3, "{table}");
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["ads", "111", "daily", "2026-01-01", &run.to_string(), "3", &bytes.to_string(), "1"]);
}

fn paths_are_files_that_are_there(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let told = world.run("data ls --paths --since 2026-01-02").done().stdout;
    let file = current_directory(&world, &days[1]).join("part-00000.jsonl.zst");
    assert_eq!(told, format!("{}\n", file.display()));
    assert!(file.is_absolute() && file.exists());
}

/// RP-2.6, CP-3b.1
fn a_reprocessing_shows_the_old_run_and_force_pending_hides_it(world: MigratedProgram) {
    let sink = Sink::files(&world);
    let day = &january("111", 1)[..];
    let past = world.ago(HOUR);
    past.want(day);
    accept(&past, &sink, 1);
    let old = world.read(&day[0]).state.current_run_id.unwrap().to_string();
    let shown = |code| world.json("data ls --logical-date 2026-01-01", code)["data"][0]["run_id"].clone();
    past.put(day, ControlEvent::Reprocess);
    assert_eq!(shown(0), json!(old));
    accept(&past, &sink, 2);
    let new = world.read(&day[0]).state.current_run_id.unwrap().to_string();
    assert_ne!(new, old);
    assert_eq!(shown(0), json!(new));
    let policy = RetryPolicy::partitions();
    past.put(day, ControlEvent::Backfill { policy: &policy, force_pending: true });
    let told = world.run("data ls --logical-date 2026-01-01 -o json");
    assert_eq!((told.code, told.json()), (3, json!({"data": []})), "{told}");
}

/// RP-6.2, CP-3d.2
fn an_absent_partition_is_told_with_what_to_do(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let policy = RetryPolicy { max_attempts: None, max_age: None, ..RetryPolicy::partitions() };
    let force = ControlEvent::Backfill { policy: &policy, force_pending: true };
    world.ago(HOUR).put(&days[1..2], force);
    let why = |command: &str, day: &str| {
        let key = format!("--source ads --customer-id 111 --query-name daily --logical-date {day}");
        world.run(&format!("data {command} {key}")).complaint(3)
    };
    for command in ["ls", "cat"] {
        for (day, words) in [
            ("2026-01-02", "it was set to pending, and no new run has been accepted yet; `redrive state explain`"),
            ("2026-01-03", "it failed (boom); `redrive state retry` tries it again"),
            ("2026-01-04", "it is pending, and no run has been accepted yet"),
            ("2026-01-05", "it is being extracted now"),
            ("2026-01-09", "no entry found; `redrive state backfill enqueue` wants it"),
        ] {
            let line = why(command, day);
            assert!(line.contains(&format!("ads/111/daily/{day} has no data: ")) && line.contains(words), "{line}");
        }
    }
    world.ago(HOUR).put(&days[2..3], ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    let line = why("ls", "2026-01-03");
    assert!(line.contains("failed for good ([terminal] boom); `redrive state retry --clear-terminal`"), "{line}");
    let by_policy = world.configured("[sources.ads.retry]\nmax_attempts = 2\n");
    by_policy.ago(HOUR).put(&days[2..3], ControlEvent::ClearTerminal);
    let key = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-03";
    let line = by_policy.run(&format!("data ls {key}")).complaint(3);
    assert!(line.contains("failed for good (boom)"), "{line}");
    let line = by_policy.run("data ls --source nobody").complaint(3);
    assert!(line.contains("no partition of this filter is a success"), "{line}");
}

/// RP-1.4
fn nothing_is_written_and_nothing_is_made(world: MigratedProgram) {
    let line = world.run("data ls").complaint(3);
    assert!(line.contains("nothing found"), "{line}");
    assert!(!world.home.file("raw").exists(), "{:?}", world.home.files());
    assert_eq!(world.operations(), 0);
    for wrong in ["--status failed", "--error-class final", "--source a*", "--since 1900-01-01", "--since tomorrow"] {
        world.run(&format!("data ls {wrong}")).complaint(2);
        world.run(&format!("data cat {wrong}")).complaint(2);
    }
}

/// More customers like the one that is there, without a disk's wait for each.
fn copy(world: &MigratedProgram, first: &PartitionKey, keys: &[PartitionKey]) {
    let from = current_directory(world, first);
    let manifest = std::fs::read_to_string(from.join("_manifest.json")).unwrap();
    for key in keys {
        let to = PathBuf::from(from.to_str().unwrap().replace(first.customer_id.as_str(), key.customer_id.as_str()));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join("part-00000.jsonl.zst"), to.join("part-00000.jsonl.zst")).unwrap();
        let manifest = manifest.replace(first.customer_id.as_str(), key.customer_id.as_str());
        std::fs::write(to.join("_manifest.json"), manifest).unwrap();
    }
    let customers: Vec<_> = keys.iter().map(|key| format!("('{}')", key.customer_id)).collect();
    world.execute(&format!(
        "WITH c(name) AS (VALUES {}) INSERT INTO series (series_id, source, customer_id, query_name, source_no, scope) \
         SELECT 1 + row_number() OVER (), source, c.name, query_name, source_no, scope + row_number() OVER () \
         FROM series, c WHERE series_id = 1",
        customers.join(", ")
    ));
    world.execute(
        "INSERT INTO partitions (series_id, period, source_no, status, current_run_id, record_count, attempt_count, \
         created_at, updated_at) SELECT s.series_id, period, p.source_no, status, current_run_id, record_count, \
         attempt_count, created_at, updated_at FROM partitions p, series s WHERE s.series_id > 1",
    );
}

/// More than a page: nothing is left out between two, and JSON is one document.
fn more_than_a_page_is_listed_and_read_whole(world: MigratedProgram) {
    // The first page has the widest row.
    let name = |n: u32| if n == 0 { "c0000-with-a-longer-name".to_owned() } else { format!("c{n:04}") };
    let keys: Vec<_> = (0..1030).map(|n| key(&name(n), "daily", "2026-01-01")).collect();
    let past = world.ago(HOUR);
    past.want(&keys[..1]);
    accept(&past, &Sink::files(&world), 1);
    copy(&world, &keys[0], &keys[1..]);
    let listed = world.json("data ls", 0);
    let customers: Vec<_> = listed["data"].as_array().unwrap().iter().map(|entry| &entry["customer_id"]).collect();
    assert_eq!(customers, keys.iter().map(|key| key.customer_id.as_str()).collect::<Vec<_>>());
    assert_eq!(world.run("data ls --paths").done().stdout.lines().count(), 1030);
    assert_eq!(world.run("data ls -o csv").done().stdout.lines().count(), 1031);
    let table = world.run("data ls").done().stdout;
    assert_eq!((table.lines().count(), table.matches("customer").count()), (1031, 1), "one header");
    let columns: std::collections::BTreeSet<_> = table.lines().skip(1).map(|row| row.find("daily")).collect();
    assert_eq!(columns.len(), 1, "all pages are as wide as the first: {columns:?}");
    assert_eq!(world.run("data cat --all").done().stdout, text(&keys[0], 1).repeat(1030));
}

redrive_fixture::on_both!(
    only_current_runs_of_successes_are_listed,
    paths_are_files_that_are_there,
    a_reprocessing_shows_the_old_run_and_force_pending_hides_it,
    an_absent_partition_is_told_with_what_to_do,
    nothing_is_written_and_nothing_is_made,
    more_than_a_page_is_listed_and_read_whole,
);
