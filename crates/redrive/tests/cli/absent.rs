//! A SQLite file that does not exist: looking does not make it, and making it is told.

use crate::home::Home;

const KEY: [&str; 8] =
    ["--source", "ads", "--customer-id", "1", "--query-name", "daily", "--logical-date", "2026-01-01"];

/// Commands that look without a control plane: words, and whether a key follows.
const LOOKS: [(&[&str], bool); 9] = [
    (&["state", "inspect"], false),
    (&["state", "inspect", "--missing"], false),
    (&["state", "terminal"], false),
    (&["state", "explain"], true),
    (&["state", "audit", "list"], false),
    (&["state", "audit", "show", "01a1e18e-328a-75a2-8b9c-f003d4b5a133"], false),
    (&["state", "audit", "verify"], false),
    (&["state", "cooldown", "list"], false),
    (&["state", "cooldown", "lift", "--dry-run", "--source", "ads"], false),
];

/// Dry runs: words, whether a key follows, and the code for an empty store.
const DRY_RUNS: [(&[&str], bool, i32); 3] = [
    (&["state", "retry", "--dry-run"], true, 0),
    (&["state", "backfill", "enqueue", "--dry-run"], true, 0),
    (&["daemon", "--once", "--dry-run"], false, 0),
];

fn words<'a>(command: &[&'a str], with_key: bool, more: &[&'a str]) -> Vec<&'a str> {
    let key = if with_key { KEY.as_slice() } else { &[] };
    [command, key, more].concat()
}

#[test]
fn looking_makes_nothing_and_says_what_is_missing() {
    for (command, with_key) in LOOKS {
        let home = Home::new();
        let line = home.run(&words(command, with_key, &["-o", "json"])).complaint(6);
        let file = home.file("redrive.db");
        assert!(line.contains(&file.display().to_string()), "{command:?}: {line}");
        assert!(line.contains("does not exist; `redrive migrate` makes it"), "{command:?}: {line}");
        assert!(home.files().is_empty(), "{command:?} left {:?}", home.files());
    }
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
        assert!(line.contains("run `redrive migrate`"), "{command:?}: {line}");
        assert!(std::fs::read(home.file("redrive.db")).unwrap() == before, "{command:?} changed the database");
    }
}

#[test]
fn a_dry_run_makes_nothing() {
    for (command, with_key, code) in DRY_RUNS {
        let (absent, empty) = (Home::new(), Home::new());
        empty.run(&["migrate"]).done();
        let command = words(command, with_key, &["-o", "json"]);
        let (told, expected) = (absent.run(&command), empty.run(&command));
        assert_eq!((told.code, &told.stdout), (code, &expected.stdout), "{command:?}\n{told}");
        let said = format!("{} does not exist; `redrive migrate` makes it\n", absent.file("redrive.db").display());
        assert_eq!(told.stderr, said + &expected.stderr, "{command:?}");
        assert!(absent.files().is_empty(), "{command:?} left {:?}", absent.files());
        let quiet = absent.run(&words(&command, false, &["-q"]));
        assert!(!quiet.stderr.contains("does not exist") && absent.files().is_empty(), "{quiet}");
    }
}

#[test]
fn looking_where_no_file_could_be_is_an_error() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:no/such/redrive.db");
    let line = home.run(&["state", "inspect"]).complaint(6);
    assert!(line.contains("the directory no/such does not exist"), "{line}");
    // Nor is one that cannot be found out about taken for empty.
    let home = Home::new();
    std::os::unix::fs::symlink("redrive.db", home.file("redrive.db")).unwrap();
    home.run(&["state", "inspect"]).complaint(6);
}

#[test]
fn a_change_makes_the_file_and_says_so_once() {
    let config = "[sources.ads.extract]\nkind = \"sample\"\n";
    let changes: [(&[&str], bool); 4] = [
        (&["state", "backfill", "enqueue"], true),
        (&["state", "retry"], true),
        (&["worker", "--drain"], false),
        (&["daemon", "--once"], false),
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
