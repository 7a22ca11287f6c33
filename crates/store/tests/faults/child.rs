//! Other processes: this test binary again, told by the environment to be something else for a while.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

const ORDER: &str = "REDRIVE_FAULTS_CHILD";

/// What this process was told to do, if it is a child.
pub fn order() -> Option<String> {
    std::env::var_os(ORDER).map(|order| order.into_string().unwrap())
}

/// A command that runs the test `name` of this binary with an order.
pub fn command(name: &str, order: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ORDER, order);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a child that must succeed; gives what it said on standard output.
pub fn succeeded(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}
