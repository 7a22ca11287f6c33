//! What a service manager hears of a worker and a daemon, on the socket that it names.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use redrive_fixture::on_both;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

const SOURCE: &str = "[sources.a.extract]\nkind = \"command\"\ncommand = [\"true\"]\n";

/// Hears `wanted` next, but for words that the process is alive.
fn hear(socket: &UnixDatagram, wanted: &str) {
    let mut text = [0; 256];
    loop {
        let length = socket.recv(&mut text).unwrap_or_else(|error| panic!("{wanted} was not heard: {error}"));
        match std::str::from_utf8(&text[..length]).unwrap().trim() {
            "WATCHDOG=1" => {}
            heard => return assert_eq!(heard, wanted),
        }
    }
}

fn a_service_says_that_it_is_ready_and_that_it_ends(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SOURCE);
    for command in ["worker", "daemon"] {
        let path = rig.subject.home.file(&format!("{command}.socket"));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut process = rig.spawn_as(command, |child| {
            child.env("NOTIFY_SOCKET", &path);
        });
        hear(&socket, "READY=1");
        process.signal("-TERM");
        hear(&socket, "STOPPING=1");
        assert_eq!(process.code(), Some(0), "{}", rig.log(&process));
    }
}

on_both! {
    a_service_says_that_it_is_ready_and_that_it_ends,
}
