//! `redrive migrate`.

use insta::assert_snapshot;

use crate::home::{Home, TestProgram};

fn place(subject: &TestProgram) -> &str {
    if subject.kind == "sqlite" { "redrive.db" } else { &subject.url }
}

fn a_fresh_database_goes_to_the_newest_version_and_stays_there(subject: TestProgram) {
    let place = place(&subject);
    let told = subject.home.run(&["migrate"]).done();
    assert_eq!((told.stdout, told.stderr), (format!("{place} went from version 0 to 1\n"), String::new()));
    let told = subject.home.run(&["migrate"]).done();
    assert_eq!((told.stdout, told.stderr), (format!("{place} is at version 1\n"), String::new()));
}

fn json_says_from_and_to(subject: TestProgram) {
    let place = place(&subject);
    let told = subject.home.run(&["migrate", "-o", "json"]).done().json();
    assert_eq!(told, serde_json::json!({"store": place, "from": 0, "to": 1}));
    let told = subject.home.run(&["migrate", "-o", "json"]).done().json();
    assert_eq!(told, serde_json::json!({"store": place, "from": 1, "to": 1}));
}

fn tables_of_something_else_are_refused_and_left_alone(subject: TestProgram) {
    subject.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)");
    let before = subject.inventory();
    let line = subject.home.run(&["migrate"]).complaint(6);
    assert!(line.contains("holds another program's tables; choose an empty database"), "{line}");
    assert_eq!(subject.inventory(), before);
}

redrive_fixture::on_both!(
    a_fresh_database_goes_to_the_newest_version_and_stays_there,
    json_says_from_and_to,
    tables_of_something_else_are_refused_and_left_alone,
);

#[test]
fn a_folder_that_is_not_there_is_named() {
    let home = Home::with_config("[store]\nurl = \"sqlite:no/such/redrive.db\"\n");
    assert_snapshot!(home.run(&["migrate"]).complaint(6), @"error: cannot open no/such/redrive.db: the directory no/such does not exist");
    assert_eq!(home.files(), ["redrive.toml"]);
}
