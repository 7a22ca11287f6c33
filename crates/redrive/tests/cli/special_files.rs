//! A pipe or a device in the place of a file is refused at once, not read for ever.

use std::process::Command;

use crate::home::Home;

fn told(home: &Home, arguments: &[&str]) -> String {
    let told = home.run(arguments);
    assert_ne!(told.code, 0, "{told}");
    told.stderr
}

#[test]
fn a_plan_or_an_archive_is_a_file() {
    let home = Home::new();
    home.run(&["migrate"]).done();
    assert!(Command::new("mkfifo").arg(home.file("pipe")).status().unwrap().success());
    let arguments = [["state", "apply"].as_slice(), &["ingest", "upload"], &["ingest", "lint"]];
    for command in arguments {
        for (file, what) in [("pipe", "it is a pipe"), ("/dev/zero", "it is a device")] {
            let said = told(&home, &[command, &[file]].concat());
            assert!(said.contains(what) && said.contains(file), "{command:?}: {said}");
        }
    }
}
