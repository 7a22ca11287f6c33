//! `redrive init`.

use insta::assert_snapshot;

use crate::home::{Home, SECRET, TestProgram};

#[test]
fn an_empty_folder_gets_a_configuration_and_a_database() {
    let home = Home::new();
    assert_snapshot!(home.run(&["init"]), @r"
    wrote ./redrive.toml and made ./redrive.db
    --- stderr
    --- exit 0
    ");
    assert_eq!(home.files(), ["redrive.db", "redrive.toml"]);
    assert_snapshot!(home.read("redrive.toml"), @r#"
    # Redrive's configuration. Every key can be overridden by environment: REDRIVE_STORE__URL is store.url.

    [store]
    url = "sqlite:redrive.db"        # or postgres://user@host/database

    [raw]
    url = "file:raw"                 # or s3://bucket/prefix, with credentials from the usual AWS_* variables

    [worker]
    concurrency = 16
    lease = "2m"
    heartbeat = "30s"
    poll = "1s"
    grace = "30s"

    [daemon]
    interval = "60s"

    [safety]
    confirm_above = 20               # more partitions than this need their number typed
    hard_limit = 10000               # more than this need --force
    earliest_date = "2015-01-01"     # a filter before this is a slip

    # Where data comes from. Any program that prints one JSON object per line will do:
    # [sources.ads.extract]
    # kind = "command"               # command | http | google-ads | singer | airbyte | sample
    # command = ["python3", "extract.py"]

    # What handles jobs. A program gets the job as JSON on stdin and prints {"verdict":"passed"} as its last line:
    # [process.reviews]
    # categories = ["review"]
    # command = ["python3", "review.py"]   # or url = "https://…"
    # keep = "90d"                   # how long finished jobs are kept; without it, for ever
    "#);
}

#[test]
fn what_init_writes_is_understood_by_every_other_command() {
    let home = Home::new();
    home.run(&["init"]).done();
    assert_snapshot!(home.run(&["migrate"]), @r"
    redrive.db is at version 1
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(home.run(&["doctor"]), @r"
           check          finding
     ok    configuration  redrive.toml is understood
     ok    store          redrive.db is at version 1
     ok    integrity      the database finds itself sound
     ok    clock          this host's clock agrees with the database's
     ok    audit chain    0 rows, whole
     warn  processes      no worker and no daemon is alive; start `redrive worker` and `redrive daemon`
     warn  raw sink       file:raw does not exist yet; the first worker makes it
     ok    attempts       0 under way
     ok    partitions     0 with 0 attempts, sound
     ok    raw data       0 current runs, 0 parts with 0 bytes read, every hash right
    --- stderr
    --- exit 0
    ");
}

#[test]
fn a_second_init_is_refused_and_changes_nothing() {
    let home = Home::new();
    home.run(&["init"]).done();
    home.write("redrive.toml", "# mine\n");
    assert_snapshot!(home.run(&["init"]).complaint(4), @"error: ./redrive.toml is there already; use --force to replace it");
    assert_eq!(home.read("redrive.toml"), "# mine\n");
}

/// `doctor` and `data` send people to make the database; nobody's configuration may be lost on the way.
#[test]
fn a_configuration_that_is_there_is_kept_and_its_database_made() {
    let mine = "[store]\nurl = \"sqlite:mine.db\"\n";
    let home = Home::with_config(mine);
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, 6, "{told}");
    assert!(told.stdout.contains("mine.db: it does not exist; migrating makes it (`redrive migrate`)"), "{told}");
    assert_snapshot!(home.run(&["data", "ls"]).complaint(6), @"error: cannot open mine.db: it does not exist; migrating makes it (`redrive migrate`)");
    let told = home.run(&["init", "--store", "sqlite:other.db"]).complaint(4);
    assert!(told.contains("redrive.toml is there already"), "{told}");
    assert_snapshot!(home.run(&["init"]), @r"
    kept ./redrive.toml as it is and made ./mine.db
    --- stderr
    --- exit 0
    ");
    assert_eq!(home.files(), ["mine.db", "redrive.toml"]);
    assert_eq!(home.read("redrive.toml"), mine);
    home.run(&["doctor"]).done();
    home.run(&["init"]).complaint(4);
}

fn a_server_named_by_a_configuration_gets_its_tables(subject: TestProgram) {
    subject.home.write("redrive.toml", &format!("[store]\nurl = \"{}\"\n", subject.url));
    let told = subject.home.run(&["init"]).done();
    assert!(told.stdout.starts_with("kept ./redrive.toml as it is and made "), "{told}");
    subject.home.run(&["doctor"]).done();
    assert!(subject.home.run(&["init"]).complaint(4).contains("is there already"));
}

redrive_fixture::on_both!(a_server_named_by_a_configuration_gets_its_tables);

#[test]
fn force_replaces_the_configuration_and_keeps_the_database() {
    let home = Home::new();
    home.run(&["init"]).done();
    let written = home.read("redrive.toml");
    home.write("redrive.toml", "# mine\n");
    home.sqlite("redrive.db", "INSERT INTO holds (hold_id, source, customer_id, query_name, kind, since, until, by) VALUES (x'00', 'ads', '', '', 'cooldown', 0, 1, 'ads')");
    home.run(&["init", "--force"]).done();
    assert_eq!(home.read("redrive.toml"), written);
    let kept = rusqlite::Connection::open(home.file("redrive.db")).unwrap();
    assert_eq!(kept.query_row("SELECT count(*) FROM holds", (), |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn another_folder_is_made_with_everything_in_it() {
    let home = Home::new();
    assert_snapshot!(home.run(&["init", "a/b"]), @r"
    wrote a/b/redrive.toml and made a/b/redrive.db
    --- stderr
    --- exit 0
    ");
    assert_eq!(home.files(), ["a"]);
    let inside = Home::at(&home.file("a/b"));
    assert_eq!(inside.files(), ["redrive.db", "redrive.toml"]);
    inside.run(&["doctor"]).done();
}

#[test]
fn quiet_says_nothing() {
    let told = Home::new().run(&["init", "-q"]).done();
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("", ""));
}

#[test]
fn a_file_with_a_password_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let database = redrive_fixture::Postgres::shared().fresh_database();
    let url = database.url.replace("postgres://postgres@", "postgres://postgres:hunter2@");
    let home = Home::new();
    home.run(&["init", "--store", &url]).done();
    let mode = std::fs::metadata(home.file("redrive.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_wrong_store_url_is_one_line_and_leaves_nothing_behind() {
    for (url, exit, why) in [
        ("mysql://u:hunter2@h/db", 2, "starts with neither sqlite: nor postgres://"),
        ("sqlite:", 2, "names no file"),
        ("sqlite::memory:", 2, "lost with the process"),
        ("postgres://u:hunter2@h:port/db", 2, "port"),
        ("sqlite:no/such/folder/redrive.db", 6, "does not exist"),
        ("postgres://u:hunter2@127.0.0.1:9/db?connect_timeout=5", 6, "cannot open"),
    ] {
        let home = Home::new();
        let line = home.run(&["init", "--store", url]).complaint(exit);
        assert!(line.contains(why), "{line}");
        assert!(home.files().is_empty(), "{url} left {:?}", home.files());
        let line = home.run(&["init", "sub", "--store", url]).complaint(exit);
        assert!(line.contains(why), "{line}");
        assert!(!home.file("sub/redrive.toml").exists(), "{url}");
    }
}

#[test]
fn a_url_is_quoted_as_toml_wants_it() {
    let home = Home::new();
    home.run(&["init", "--store", r#"sqlite:a "b" \c.db"#]).done();
    assert!(home.file(r#"a "b" \c.db"#).exists(), "{:?}", home.files());
    home.run(&["doctor"]).done();
}

#[test]
fn a_database_on_a_server_is_made_and_its_password_kept_out_of_sight() {
    let subject = TestProgram::postgres();
    let url = subject.url.replace("postgres@", &format!("postgres:{SECRET}@"));
    assert!(url.contains(SECRET));
    let home = Home::new();
    let told = home.run(&["init", "--store", &url]).done();
    assert!(told.stdout.starts_with("wrote ./redrive.toml and made postgres://postgres:***@"), "{told}");
    assert_eq!(home.files(), ["redrive.toml"]);
    assert!(home.read("redrive.toml").contains(&format!("url = \"{url}\"")));
    home.run(&["doctor"]).done();
    home.run(&["migrate", "-vv"]).done();
}
