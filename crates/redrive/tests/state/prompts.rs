//! Questions at a terminal, answered on a pseudo-terminal by `script`.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use redrive_core::failure::ErrorClass;
use redrive_core::partition::ControlEvent;
use redrive_fixture::{boom, rejected, until};
use serde_json::Value;

use crate::world::{HOUR, MigratedProgram, count, january, reasons};

/// Types `answer` at the program's question; gives what the terminal showed and the exit code.
fn asked(world: &MigratedProgram, line: &str, answer: &str) -> (String, i32) {
    asked_while(world, line, answer, || {})
}

/// The same, with something that happens while the question is open.
fn asked_while(world: &MigratedProgram, line: &str, answer: &str, meanwhile: impl FnOnce()) -> (String, i32) {
    let program = world.home.command(&[]);
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} {line}", program.get_program().to_str().unwrap()), "/dev/null"]);
    script.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").current_dir(world.home.path());
    script.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut shown = String::new();
    until("it asks", || {
        let mut piece = [0; 4096];
        let read = stdout.read(&mut piece).unwrap();
        assert!(read > 0, "it did not ask: {shown}");
        shown.push_str(&String::from_utf8_lossy(&piece[..read]));
        shown.contains("partitions? ")
    });
    meanwhile();
    stdin.write_all(answer.as_bytes()).unwrap();
    stdin.flush().unwrap();
    let (sent, hung) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        sent.send(()).unwrap();
        String::from_utf8_lossy(&rest).into_owned()
    });
    let in_time = hung.recv_timeout(std::time::Duration::from_secs(10)).is_ok();
    drop(stdin);
    if !in_time {
        child.kill().unwrap();
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    shown.push_str(&reader.join().unwrap());
    assert!(in_time, "it did not end within 10 s of its answer: {shown}");
    (shown, code)
}

/// CP-3a.4, CP-5.1, RP-8.3
fn a_few_want_yes_and_many_want_their_number(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("few", 2), boom());
    world.ago(HOUR).judged(&january("many", 21), boom());
    let failed = "SELECT count(*) FROM partitions WHERE status = 'failed'";
    for (customer, answer, code, left) in [
        ("few", "\n", 5, 23),
        ("few", "2\n", 5, 23),
        ("many", "y\n", 5, 23),
        ("many", "20\n", 5, 23),
        ("few", "y\n", 0, 21),
        ("many", "21\n", 0, 0),
    ] {
        let (shown, ended) = asked(&world, &format!("state retry --customer-id {customer}"), answer);
        assert_eq!((ended, world.number(failed)), (code, left), "{customer} {answer:?}: {shown}");
        let question =
            if customer == "few" { "retry 2 partitions? [y/N] " } else { "retry 21 partitions? Type the number" };
        assert!(shown.contains(question), "{shown}");
    }
    assert_eq!(world.operations(), 2);
}

/// OP-11: what fails while the question is open was not counted, and what was counted is changed only as it was then.
fn what_was_counted_is_what_is_changed(world: MigratedProgram) {
    let days = january("few", 7);
    world.ago(HOUR).judged(&days[..3], boom());
    let meanwhile = || {
        world.ago(HOUR).judged(&days[3..], boom());
        world.ago(HOUR).put(&days[..1], ControlEvent::Pause { by: "ada", why: None });
    };
    let (shown, code) = asked_while(&world, "state retry --customer-id few -o json", "y\n", meanwhile);
    assert!(shown.contains("retry 3 partitions? [y/N] "), "{shown}");
    assert_eq!(code, 4, "one of the three was paused meanwhile: {shown}");
    let statuses: Vec<_> = days.iter().map(|key| world.status(key)).collect();
    assert_eq!(statuses, ["failed", "pending", "pending", "failed", "failed", "failed", "failed"], "{shown}");
    let json = shown.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{shown}"));
    let report: Value = serde_json::from_str(json).unwrap();
    assert_eq!((count(&report, "changed"), &report["matched"]), (2, &3.into()), "{report}");
    assert_eq!(reasons(&report), ["changed_since_plan"]);
}

/// Ctrl-C at the question ends the program, and nothing is changed.
fn ctrl_c_at_a_question_ends_it(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("few", 2), boom());
    let (shown, code) = asked(&world, "state retry --customer-id few", "\u{3}");
    assert!(code == 130 || code == 5, "{code}: {shown}");
    assert_eq!(world.operations(), 0);
}

/// CP-3d.1: what a source wrote in its error is shown, never obeyed by the terminal.
#[test]
fn an_error_cannot_steer_the_terminal() {
    let world = MigratedProgram::sqlite();
    let message = "gone\u{1b}[2K\u{1b}]0;owned\u{7}\rads 111 daily success";
    world.ago(HOUR).judged(&january("111", 1), rejected(ErrorClass::Retryable, message));
    let program = world.home.command(&[]);
    for line in ["state inspect", "state inspect --history", "state inspect --group-by error"] {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{} {line}", program.get_program().to_str().unwrap()), "/dev/null"]);
        script.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm").current_dir(world.home.path());
        let shown = script.stdin(Stdio::null()).output().unwrap().stdout;
        let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
        assert!(shown.contains("gone"), "{line}: {shown:?}");
        assert!(!shown.contains("\u{1b}[2K") && !shown.contains(['\u{7}', '\r']), "{line}: {shown:?}");
    }
}

redrive_fixture::on_both!(
    a_few_want_yes_and_many_want_their_number,
    what_was_counted_is_what_is_changed,
    ctrl_c_at_a_question_ends_it,
);
