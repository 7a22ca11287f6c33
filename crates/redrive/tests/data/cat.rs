//! `data cat`: the records as they came, or an error and nothing of what is damaged.

use std::io::Read as _;
use std::process::Stdio;

use crate::scene::{Sink, accept, current_directory, furnish, text};
use crate::world::{HOUR, MigratedProgram, ended, january};

/// RP-9.2
fn lines_come_verbatim_in_key_order(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let both = text(&days[0], 1) + &text(&days[1], 1);
    assert_eq!(world.run("data cat --all").done().stdout, both);
    assert_eq!(world.run("data cat --source ads").done().stdout, both);
    let key = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-02";
    assert_eq!(world.run(&format!("data cat {key}")).done().stdout, text(&days[1], 1));
}

fn everything_must_be_asked_for(world: MigratedProgram) {
    furnish(&world, &Sink::files(&world));
    let line = world.run("data cat").complaint(2);
    assert!(line.contains("every record") && line.contains("--all"), "{line}");
}

/// RP-9.1
fn a_damaged_part_is_named_and_not_printed(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let listed = world.run("data ls -o jsonl").done().stdout.lines().count();
    let file = current_directory(&world, &days[1]).join("part-00000.jsonl.zst");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[9] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let told = world.run("data cat --all");
    assert_eq!((told.code, told.stdout.as_str()), (6, text(&days[0], 1).as_str()), "{told}");
    assert!(told.stderr.contains("part-00000.jsonl.zst has sha256"), "{told}");
    std::fs::remove_file(&file).unwrap();
    let line = world.run("data cat --logical-date 2026-01-02").complaint(6);
    assert!(line.contains("part-00000.jsonl.zst is missing"), "{line}");
    std::fs::remove_file(file.with_file_name("_manifest.json")).unwrap();
    for command in ["ls", "cat"] {
        let line = world.run(&format!("data {command} --logical-date 2026-01-02")).complaint(6);
        assert!(line.contains("_manifest.json is missing"), "{line}");
    }
    // One that is damaged does not hide the others.
    let told = world.run("data ls -o jsonl");
    assert_eq!((told.code, told.stdout.lines().count()), (6, listed - 1), "{told}");
    assert!(told.stderr.contains("_manifest.json is missing"), "{told}");
}

/// A manifest that is whole but says something else than the partition is not to be trusted either.
fn a_manifest_that_contradicts_the_partition_is_refused(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    world.execute("UPDATE partitions SET record_count = 2 WHERE period = 20454");
    let line = world.run("data cat --logical-date 2026-01-01").complaint(6);
    assert!(line.contains(&days[0].to_string()) && line.contains("record_count is 2"), "{line}");
    assert!(line.ends_with("run `redrive doctor`"), "{line}");
}

/// What an attempt brought is shown whatever became of it, and the filter must fit it.
fn an_attempt_is_shown_accepted_or_not(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let now = world.ago(std::time::Duration::ZERO);
    let attempts = |nth: usize| world.runtime.block_on(now.store.view().attempts(&days[nth])).unwrap();
    let rejected = attempts(2).remove(0).run_id;
    let told = world.run(&format!("data cat --run {rejected}")).done();
    assert_eq!(told.stdout, "{\"half\":1}\n");
    assert!(told.stderr.contains("attempt 1 at") && told.stderr.contains("rejected, retryable: boom"), "{told}");
    let accepted = attempts(0).remove(0).run_id.to_string();
    let told = world.run(&format!("data cat --run {accepted} -q")).done();
    assert_eq!((told.stdout, told.stderr.as_str()), (text(&days[0], 1), ""));
    let key = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-03";
    let line = world.run(&format!("data cat {key} --run {accepted} -q")).complaint(3);
    assert!(line.contains("is an attempt at") && line.contains("2026-01-01"), "{line}");
    assert!(world.run("data cat --run ffffffff -q").complaint(3).contains("there is no run"));
    assert!(world.run(&format!("data cat --run {accepted} --stderr -q")).complaint(3).contains("nothing of stderr"));
    assert_eq!(world.run("data cat --stderr").code, 2);
    let given_back = attempts(5).remove(0).run_id;
    assert!(world.run(&format!("data cat --run {given_back} -q")).complaint(3).contains("has no data"));
}

/// `head` and the like: the end is quiet, although far more than a pipe holds is left.
fn a_reader_who_leaves_is_no_error(world: MigratedProgram) {
    let sink = Sink::files(&world);
    let past = world.ago(HOUR);
    past.want(&january("111", 1));
    let run = past.claim().remove(0);
    let many: Vec<String> = (0..200_000).map(|n| format!("{{\"n\":{n}}}")).collect();
    sink.write(&past, &run, &many, redrive_store::raw::RunOutcome::Complete);
    past.judge(&run, redrive_core::partition::Judgement::Accepted { records: 200_000 });
    let mut child = world.home.command(&["data", "cat", "--all"]);
    let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 8];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"{\"n\":0}\n");
    let told = ended(child);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told}");
}

/// RP-2.6
fn a_reprocessing_is_read_once_it_is_accepted(world: MigratedProgram) {
    let sink = Sink::files(&world);
    let day = &january("111", 1)[..];
    let past = world.ago(HOUR);
    past.want(day);
    accept(&past, &sink, 1);
    past.put(day, redrive_core::partition::ControlEvent::Reprocess);
    assert_eq!(world.run("data cat --all").done().stdout, text(&day[0], 1));
    accept(&past, &sink, 2);
    assert_eq!(world.run("data cat --all").done().stdout, text(&day[0], 2));
}

redrive_fixture::on_both!(
    lines_come_verbatim_in_key_order,
    everything_must_be_asked_for,
    a_damaged_part_is_named_and_not_printed,
    a_manifest_that_contradicts_the_partition_is_refused,
    an_attempt_is_shown_accepted_or_not,
    a_reader_who_leaves_is_no_error,
    a_reprocessing_is_read_once_it_is_accepted,
);
