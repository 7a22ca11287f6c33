//! Uploads through the program: from the file to every view of what is in it, and through killed workers.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};
use serde_json::{Value, json};

use crate::home::{TestProgram, Told};
use crate::random::{Random, full_seed};
use crate::rig::TestProcesses;

trait Exits {
    fn exits(self, code: i32) -> Self;
}

impl Exits for Told {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }
}

const SETTINGS: &str = r#"
[worker]
lease = "1s"
heartbeat = "200ms"
poll = "50ms"
[ingest]
max_upload = 5_000_000
[ingest.retry]
delays = ["100ms", "100ms", "100ms"]
"#;

fn corpus(name: &str) -> String {
    redrive_fixture::corpus("corpus").join(name).to_str().unwrap().to_owned()
}

/// Uploads a file; gives the run's id.
fn upload(rig: &TestProcesses, file: &str) -> String {
    let told = rig.redrive(&format!("ingest upload {file} -o json")).done().json();
    assert_eq!(told["runs"][0]["status"], "STORED", "{told}");
    told["runs"][0]["id"].as_str().unwrap().to_owned()
}

fn show(rig: &TestProcesses, id: &str) -> Value {
    rig.redrive(&format!("ingest show {id} -o json")).done().json()
}

fn stanzas(rig: &TestProcesses, id: &str) -> Value {
    rig.redrive(&format!("ingest stanzas {id} -o json")).done().json()
}

/// A folder with two apps, and the same after a change.
fn bundles(rig: &TestProcesses) -> (String, String) {
    let write = |path: &str, text: &str| {
        let file = rig.subject.home.file(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("etc/apps/a/default/props.conf", "top = 1\n[default]\nTZ = UTC\n[s]\nk = shipped\n");
    write("etc/apps/a/local/props.conf", "[s]\nk = mine\n");
    write("etc/apps/b/default/macros.conf", "[m]\ndefinition = `my_macro(1)` index=x\n");
    let old = upload(rig, "etc");
    write("etc/apps/a/local/props.conf", "[s]\nk = other\nadded = 1\n[s]\n\nno setting\n");
    std::fs::remove_file(rig.subject.home.file("etc/apps/b/default/macros.conf")).unwrap();
    (old, upload(rig, "etc"))
}

fn an_upload_can_be_looked_into_in_every_way(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let (old, new) = bundles(&rig);
    rig.redrive("worker --drain --workload ingest").done();
    let shown = show(&rig, &old);
    assert_eq!(
        shown.as_object().unwrap().keys().collect::<Vec<_>>().len(),
        16,
        "the fields are those of `runs show`: {shown}"
    );
    assert_eq!(shown, rig.redrive(&format!("runs show {old} -o json")).done().json());
    assert_eq!((&shown["status"], &shown["workload"]), (&json!("COMPLETE"), &json!("ingest")));
    assert_eq!(shown["metrics"]["stanzas_created"], 5);

    let found = stanzas(&rig, &old);
    let first = json!({"file": "etc/apps/a/default/props.conf", "source_path": "etc/apps/a/default/props.conf",
        "name": null, "line": 1, "layer": "default", "entries": [["top", "1"]]});
    assert!(found["stanzas"].as_array().unwrap().contains(&first), "{found}");
    let local = rig.redrive(&format!("ingest stanzas {old} --file local/props.conf --name s -o json")).done().json();
    assert_eq!(local["stanzas"][0]["entries"], json!([["k", "mine"]]));
    rig.redrive(&format!("ingest stanzas {old} --name nothing")).exits(3);

    let effective = rig.redrive(&format!("ingest effective {old} --conf props.conf -o json")).done().json();
    let s = effective["stanzas"].as_array().unwrap().iter().find(|stanza| stanza["name"] == "s").unwrap();
    assert_eq!(
        s["entries"][1],
        json!({"key": "k", "value": "mine", "source_path": "etc/apps/a/local/props.conf", "line": 2})
    );
    assert_eq!(s["entries"][0]["key"], "TZ", "what [default] says fills the others");

    let changes = rig.redrive(&format!("ingest diff {old} {new} -o json")).done().json();
    let told: Vec<_> =
        changes["changes"].as_array().unwrap().iter().map(|c| (c["change"].clone(), c["key"].clone())).collect();
    assert_eq!(
        told,
        [
            (json!("setting_added"), json!("added")),
            (json!("setting_changed"), json!("k")),
            (json!("stanza_removed"), json!(null)),
            (json!("setting_removed"), json!("definition")),
        ]
    );
    let patch = rig.redrive(&format!("ingest diff {old} {new}")).done().stdout;
    assert!(patch.contains("-   k = mine\n+   k = other\n"), "{patch}");

    let used = rig.redrive("ingest search --word my_macro -o json").done().json();
    assert_eq!(used["settings"].as_array().unwrap().len(), 1, "{used}");
    assert_eq!((&used["settings"][0]["run_id"], &used["settings"][0]["stanza"]), (&json!(old), &json!("m")));
    assert_eq!(
        rig.redrive("ingest search --key k --value-prefix o -o json").done().json()["settings"][0]["run_id"],
        json!(new)
    );
    rig.redrive("ingest search --key nothing").exits(3);
    rig.redrive("ingest search").exits(2);
    rig.redrive("ingest search --word ()").exits(2);

    let linted = rig.redrive(&format!("ingest lint {new} -o json")).exits(1).json();
    let kinds: Vec<_> =
        linted["findings"].as_array().unwrap().iter().map(|f| (f["line"].clone(), f["kind"].clone())).collect();
    assert_eq!(kinds, [(json!(4), json!("duplicate_stanza")), (json!(6), json!("junk_line"))]);
    let here = rig.redrive("ingest lint etc/apps/a/local/props.conf -o json").exits(1).json();
    assert_eq!(here["findings"][0]["source_path"], "etc/apps/a/local/props.conf");
    rig.redrive("ingest lint etc/apps/a/default").done();
    rig.redrive("ingest lint nowhere.conf").exits(3);
    rig.subject.home.write("noise.tgz", &"\u{1}\u{2}".repeat(1000));
    let several = rig.redrive("ingest lint noise.tgz etc/apps/a/local/props.conf -o json").exits(4);
    assert!(several.stderr.contains("noise.tgz cannot be read"), "{several}");
    assert_eq!(several.json()["findings"].as_array().unwrap().len(), 2, "what cannot be read does not stop the others");
    rig.subject.home.write("alone.conf", "[s]\n[s]\n");
    let alone = upload(&rig, "alone.conf");
    let linted = rig.redrive(&format!("ingest lint {alone} -o json")).exits(1).json();
    assert_eq!(linted["findings"][0]["source_path"], "alone.conf", "a single file is called what it was called");
    let mut piped = rig.subject.home.command(&["ingest", "lint", "-", "-o", "json"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"[s]\nnothing\n").unwrap();
    let linted = piped.wait_with_output().unwrap();
    assert_eq!(linted.status.code(), Some(1));
    assert!(String::from_utf8(linted.stdout).unwrap().contains("junk_line"));

    let beginning = &old[..13];
    if !new.starts_with(beginning) {
        assert_eq!(show(&rig, beginning)["id"], json!(old));
    }
    let listed = rig.redrive("ingest list -o json").done().json();
    assert_eq!((&listed["runs"][1]["id"], &listed["runs"][2]["file"]), (&json!(new), &json!("etc.tar")));
    rig.redrive("ingest show 00000000-0000-0000-0000-000000000000").exits(3);
}

/// Which file is wrong, where and why; and what became of links.
fn a_run_with_parse_errors_names_the_files(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let write = |path: &str, bytes: &[u8]| {
        let file = rig.subject.home.file(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    };
    write("etc/apps/a/default/props.conf", b"[s]\nk = 1\n[open\nx = 1\n[open again\n");
    write("etc/apps/a/default/latin.conf", b"[s]\n\nk = caf\xe9\n");
    std::os::unix::fs::symlink("props.conf", rig.subject.home.file("etc/apps/a/default/linked.conf")).unwrap();
    std::os::unix::fs::symlink("gone.conf", rig.subject.home.file("etc/apps/a/default/lost.conf")).unwrap();
    let id = upload(&rig, "etc");
    rig.redrive("worker --drain --workload ingest").done();
    let shown = show(&rig, &id);
    assert_eq!((&shown["status"], &shown["metrics"]["parse_errors"]), (&json!("COMPLETE"), &json!(4)));
    assert_eq!(shown["metrics"]["stanzas_created"], 2, "the link has what it leads to");
    let told = rig.redrive(&format!("ingest show {id}")).done().stderr;
    for line in [
        "etc/apps/a/default/props.conf:3: a header is not closed",
        "(dangling_header, 2 times)",
        "etc/apps/a/default/latin.conf:3: the file is not UTF-8 at byte 12; save it as UTF-8",
        "etc/apps/a/default/lost.conf:1: the link to `etc/apps/a/default/gone.conf` leads to nothing in the upload",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
}

/// The daemon forgets uploads that ended longer ago than `keep`; the bytes in the sink stay.
fn the_daemon_forgets_old_uploads(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &SETTINGS.replace("\n[ingest]\n", "\n[ingest]\nkeep = \"1s\"\n"));
    let id = upload(&rig, &corpus("props.conf"));
    rig.redrive("worker --drain --workload ingest").done();
    let count = |table: &str| rig.number(&format!("SELECT count(*) FROM {table}"));
    assert!(count("stanzas") > 0 && count("settings") > 0 && count("words") > 0);
    until_within(Duration::from_secs(30), "it is forgotten", || {
        rig.redrive("daemon --once").done();
        count("uploads") == 0
    });
    for table in ["runs", "files", "stanzas", "settings", "words"] {
        assert_eq!(count(table), 0, "{table}");
    }
    rig.redrive(&format!("ingest show {id}")).exits(3);
    let object = rig.subject.home.files().into_iter().find(|name| name.contains(&id));
    let in_sink = rig.subject.home.file(&format!("raw/_uploads/run_id={id}/archive"));
    assert!(in_sink.exists() || object.is_some(), "the sink keeps what it was given");
    let again = upload(&rig, &corpus("props.conf"));
    rig.redrive("worker --drain --workload ingest").done();
    assert_eq!(show(&rig, &again)["status"], "COMPLETE");
}

fn what_cannot_be_parsed_says_why(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.subject.home.write("noise.tgz", &"\u{1}\u{2}".repeat(1000));
    rig.subject.home.write("large.conf", &"#".repeat(5_000_001));
    let too_large = rig.redrive("ingest upload large.conf").complaint(4);
    assert!(too_large.contains("large.conf has more than 5000000 bytes"), "{too_large}");
    rig.subject.home.write("good.conf", "[a]\n");
    let worst = rig.redrive("ingest upload absent.tgz large.conf good.conf -o json").exits(6);
    assert_eq!(worst.json()["runs"][0]["status"], "STORED", "the others are uploaded, and the exit is the worst");
    // Stdin stays open: the program must end all the same.
    let mut sending = rig.subject.home.command(&["ingest", "upload", "-"]);
    let mut sending = sending.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = sending.stdin.take().unwrap();
    let _ = stdin.write_all(&vec![b'#'; 5_300_000]);
    until_within(Duration::from_secs(20), "it ends", || sending.try_wait().unwrap().is_some());
    assert_eq!(sending.wait().unwrap().code(), Some(4));
    let listed = rig.redrive("ingest list -o json").done().json();
    assert_eq!((&listed["runs"][0]["file"], &listed["runs"][0]["status"]), (&json!("stdin"), &json!("FAILED")));
    drop(stdin);
    let absent = rig.redrive("ingest upload absent.tgz").complaint(6);
    assert!(absent.contains("cannot read absent.tgz"), "{absent}");
    let waiting = rig.redrive("ingest upload noise.tgz --wait --timeout 200ms").exits(1);
    assert!(waiting.stderr.contains("no worker has taken run"), "{waiting}");
    let mut worker = rig.spawn("worker --workload ingest");
    let told = rig.redrive("ingest upload noise.tgz --wait -o json").exits(1);
    assert!(told.stderr.contains("the same bytes were uploaded before, as run"), "{told}");
    let told = told.json();
    assert_eq!(told["runs"][0]["status"], "FAILED");
    let shown = show(&rig, told["runs"][0]["id"].as_str().unwrap());
    assert_eq!((&shown["status"], &shown["metrics"]["error_type"]), (&json!("FAILED"), &json!("invalid_format")));
    assert!(shown["error_traceback"].as_str().unwrap().contains("invalid_format"), "{shown}");
    let good = rig.redrive(&format!("ingest upload {} --wait -o json", corpus("props.conf"))).done().json();
    assert_eq!(good["runs"][0]["status"], "COMPLETE");
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0));
}

/// An upload that was killed on the way stays PENDING, and says what is missing.
fn an_upload_that_was_broken_off_says_what_is_missing(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let mut command = rig.subject.home.command(&["ingest", "upload", "-"]);
    let mut sending = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pending = "SELECT count(*) FROM runs WHERE state = 'storing'";
    sending.stdin.as_mut().unwrap().write_all(b"[a]\n").unwrap();
    until_within(Duration::from_secs(20), "its run is there", || rig.number(pending) == 1);
    sending.kill().unwrap();
    sending.wait().unwrap();
    rig.redrive("worker --drain --workload ingest").done();
    let listed = rig.redrive("ingest list -o json").done().json();
    assert_eq!(listed["runs"][0]["status"], "PENDING");
    let told = rig.redrive(&format!("ingest show {}", listed["runs"][0]["id"].as_str().unwrap())).done();
    assert!(told.stderr.contains("its bytes have not arrived"), "{told}");
    rig.subject.home.write("a.conf", "[a]\n");
    upload(&rig, "a.conf");
    rig.redrive("worker --drain --workload ingest").done();
    assert_eq!(rig.redrive("ingest list -o json").done().json()["runs"][0]["status"], "COMPLETE");
}

/// Small batches make many moments at which a parse can die with some of its rows written.
const SMALL_BATCHES: &str = "\n[ingest]\nbatch_rows = 25\n";

/// Kills a worker at random moments of a parse; what is there in the end is what an undisturbed parse gives.
fn kill_at_random(subject: TestProgram, kills: u32) {
    println!("seed {}", full_seed());
    let mut random = Random(full_seed());
    let settings = SETTINGS.replace("\n[ingest]\n", SMALL_BATCHES);
    let rig = TestProcesses::new(subject, &settings);
    let whole = upload(&rig, &corpus("cyences.spl"));
    let spans = || rig.number("SELECT count(*) FROM settings");
    rig.redrive("worker --drain --workload ingest").done();
    let undisturbed = stanzas(&rig, &whole);
    let settings = spans();
    assert_eq!(undisturbed["stanzas"].as_array().unwrap().len(), 941);
    let (mut midway, mut tries) = (0, 0);
    while midway < kills {
        tries += 1;
        assert!(tries <= 4 * kills, "only {midway} of {tries} kills hit a parse");
        let (id, before) = (upload(&rig, &corpus("cyences.spl")), spans());
        let parsing = "SELECT count(*) FROM runs WHERE workload = 'ingest' AND state = 'running'";
        let mut worker = rig.spawn("worker --workload ingest");
        until_within(Duration::from_secs(60), "it is PARSING", || rig.number(parsing) == 1 || spans() > before);
        // A random share of all rows, so that the kill comes anywhere between the first batch and the last.
        let share = i64::try_from(random.below(1000)).unwrap() * settings / 1000;
        until_within(Duration::from_secs(60), "some rows are there", || spans() >= before + share);
        worker.kill();
        let written = spans() - before;
        let is_partial = show(&rig, &id)["status"] == "PARSING" && written < settings;
        midway += u32::from(is_partial);
        until_within(Duration::from_secs(60), "it is parsed", || {
            rig.redrive("worker --drain --workload ingest").done();
            show(&rig, &id)["status"] == "COMPLETE"
        });
        assert_eq!(stanzas(&rig, &id), undisturbed, "{id} after a kill with {written} of {settings} settings written");
        assert_eq!(show(&rig, &id)["metrics"]["stanzas_created"], 941);
        assert_eq!(spans(), before + settings, "nothing is twice");
    }
    println!("{midway} of {tries} kills hit a parse that had written a part");
    let twice = "SELECT count(*) FROM (SELECT file_id, name FROM stanzas GROUP BY file_id, name HAVING count(*) > 1) t";
    assert_eq!(rig.number(twice), 0);
}

fn a_killed_parse_is_made_whole(subject: TestProgram) {
    kill_at_random(subject, 2);
}

redrive_fixture::on_both!(
    an_upload_can_be_looked_into_in_every_way,
    a_run_with_parse_errors_names_the_files,
    the_daemon_forgets_old_uploads,
    what_cannot_be_parsed_says_why,
    an_upload_that_was_broken_off_says_what_is_missing,
    a_killed_parse_is_made_whole,
);

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn twenty_kills_of_a_parse_on_sqlite() {
    kill_at_random(TestDatabase::sqlite().into(), 20);
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn twenty_kills_of_a_parse_on_postgres() {
    kill_at_random(TestDatabase::postgres().into(), 20);
}
