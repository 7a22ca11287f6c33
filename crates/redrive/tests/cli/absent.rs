//! A SQLite file that does not exist: looking does not make it, and making it is told.

use crate::home::Home;

const KEY: [&str; 8] =
    ["--source", "ads", "--customer-id", "1", "--query-name", "daily", "--logical-date", "2026-01-01"];

/// Commands that only look, dry runs among them; and whether a key follows.
const LOOKS: [(&str, bool); 41] = [
    ("status", false),
    ("state inspect", false),
    ("state inspect --missing", false),
    ("state terminal", false),
    ("state groups", false),
    ("state explain", true),
    ("state audit list", false),
    ("state audit show 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("state audit head", false),
    ("state hold list", false),
    ("state hold set --dry-run --source ads", false),
    ("state hold lift --dry-run --source ads", false),
    ("state cooldown list", false),
    ("state cooldown lift --dry-run --source ads", false),
    ("state retry --dry-run", true),
    ("state reprocess --dry-run", true),
    ("state mark-terminal --dry-run", true),
    ("state clear-terminal --dry-run", true),
    ("state pause --dry-run", true),
    ("state resume --dry-run", true),
    ("state backfill enqueue --dry-run", true),
    ("state apply 01a1e18e-328a-75a2-8b9c-f003d4b5a133 --dry-run", false),
    ("state undo 01a1e18e-328a-75a2-8b9c-f003d4b5a133 --dry-run", false),
    ("runs list", false),
    ("runs show 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("runs explain 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("runs groups", false),
    ("runs retry 01a1e18e-328a-75a2-8b9c-f003d4b5a133 --dry-run", false),
    ("runs cancel 01a1e18e-328a-75a2-8b9c-f003d4b5a133 --dry-run", false),
    ("runs prune --older-than 1d --dry-run", false),
    ("ingest list", false),
    ("ingest show 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("ingest stanzas 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("ingest effective 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
    ("ingest diff 01a1e18e-328a-75a2-8b9c-f003d4b5a133 01a1e18e-328a-75a2-8b9c-f003d4b5a134", false),
    ("ingest search --key index", false),
    ("data ls", false),
    ("data cat", true),
    ("daemon --once --dry-run", false),
    ("token list", false),
    ("notify list", false),
];

fn words<'a>(command: &'a str, with_key: bool, more: &[&'a str]) -> Vec<&'a str> {
    let key = if with_key { KEY.as_slice() } else { &[] };
    [command.split_whitespace().collect::<Vec<_>>().as_slice(), key, more].concat()
}

#[test]
fn looking_makes_nothing_and_says_what_is_missing() {
    for (command, with_key) in LOOKS {
        let home = Home::new();
        let line = home.run(&words(command, with_key, &["-o", "json"])).complaint(6);
        assert!(
            line.contains("redrive.db: it does not exist; migrating makes it (`redrive migrate`)"),
            "{command:?}: {line}"
        );
        assert!(home.files().is_empty(), "{command:?} left {:?}", home.files());
    }
}

/// Where there is no database there is no trail, whole or broken.
#[test]
fn a_trail_that_is_not_there_is_nothing_found() {
    let home = Home::new();
    let line = home.run(&["state", "audit", "verify", "-o", "json"]).complaint(3);
    assert!(line.contains("there is no audit trail to check") && line.contains("redrive.db"), "{line}");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

/// A database of an older version is left as it is, and its operator reads what to do.
#[test]
fn looking_does_not_migrate() {
    for (command, with_key) in LOOKS {
        let home = Home::new();
        home.run(&["migrate"]).done();
        home.sqlite("redrive.db", "PRAGMA user_version = 0; DROP TABLE IF EXISTS run_failures");
        let before = std::fs::read(home.file("redrive.db")).unwrap();
        let line = home.run(&words(command, with_key, &[])).complaint(6);
        assert!(line.contains("migrate it (`redrive migrate`)"), "{command:?}: {line}");
        assert!(std::fs::read(home.file("redrive.db")).unwrap() == before, "{command:?} changed the database");
    }
}

#[test]
fn looking_where_no_file_could_be_is_an_error() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:no/such/redrive.db");
    let line = home.run(&["state", "inspect"]).complaint(6);
    assert!(line.contains("no/such") && line.contains("does not exist"), "{line}");
    // Nor is one that cannot be found out about taken for empty.
    let home = Home::new();
    std::os::unix::fs::symlink("redrive.db", home.file("redrive.db")).unwrap();
    home.run(&["state", "inspect"]).complaint(6);
}

#[test]
fn what_brings_in_something_new_makes_the_file_and_says_so_once() {
    let config = "[sources.ads.extract]\nkind = \"sample\"\n";
    let changes = [
        ("state backfill enqueue", true),
        ("runs submit --category mail --external-id 1", false),
        ("ingest upload redrive.toml", false),
        ("daemon --once", false),
    ];
    for (command, with_key) in changes {
        let home = Home::with_config(config);
        let said = format!("made a new, empty database at {}\n", home.file("redrive.db").display());
        let told = home.run(&words(command, with_key, &["-o", "jsonl"])).done();
        assert!(told.stderr.contains(&said), "{command:?}\n{told}");
        assert!(!told.stdout.contains("made a new"), "{told}");
        let again = home.run(&words(command, with_key, &[])).done();
        assert!(!again.stderr.contains("made a new"), "{again}");
        let home = Home::with_config(config);
        let quiet = home.run(&words(command, with_key, &["-q"])).done();
        assert!(!quiet.stderr.contains("made a new") && home.file("redrive.db").exists(), "{quiet}");
    }
}

/// In the wrong folder they would change nothing, and leave a database that looks like the right one.
/// `runs submit` checks its flags before it makes a database.
#[test]
fn a_job_that_is_none_makes_no_file() {
    let home = Home::new();
    let line = home.run(&["runs", "submit", "--category", "a", "--payload", "{"]).complaint(2);
    assert!(line.contains("--payload is not JSON"), "{line}");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn what_changes_only_what_is_there_makes_no_file() {
    let config = "[sources.ads.extract]\nkind = \"sample\"\n";
    let changes = [
        ("state retry", true),
        ("state reprocess", true),
        ("state pause", true),
        ("state resume", true),
        ("state mark-terminal", true),
        ("state apply 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
        ("state undo 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
        ("state cooldown lift --source ads", false),
        ("runs retry 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
        ("runs cancel 01a1e18e-328a-75a2-8b9c-f003d4b5a133", false),
        ("runs prune --older-than 1d", false),
        ("runs drain py", false),
        ("token revoke me", false),
        ("notify test", false),
        ("worker --drain", false),
    ];
    for (command, with_key) in changes {
        for is_empty in [false, true] {
            let home = Home::with_config(config);
            if is_empty {
                home.write("redrive.db", "");
            }
            let told = home.run(&words(command, with_key, &[]));
            let line = told.stderr.lines().last().unwrap_or_default();
            assert_eq!(told.code, 6, "{command:?}\n{told}");
            assert!(
                line.contains("redrive.db") && line.contains("makes it (`redrive migrate`)"),
                "{command:?}: {line}"
            );
            assert_eq!(home.file("redrive.db").exists(), is_empty, "{command:?} left {:?}", home.files());
        }
    }
}
