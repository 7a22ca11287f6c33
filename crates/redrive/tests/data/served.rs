//! `GET /v1/data`: what `data cat` prints, for other programs.

use std::fs::File;
use std::process::{Child, Stdio};
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_fixture::until_within;

use crate::http::ask;
use crate::scene::{Sink, current_directory, furnish, text};
use crate::world::MigratedProgram;

/// A server that does not outlive its test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(world: &MigratedProgram) -> Self {
        let log = File::create(world.home.file("serve.log")).unwrap();
        let mut command = world.home.command(&["serve", "--listen", "127.0.0.1:0", "--no-worker", "--no-daemon"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut server = Self { child, address: String::new() };
        until_within(Duration::from_secs(30), "the server listens", || {
            let log = world.home.read("serve.log");
            let line = log.lines().find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
            server.address = line.unwrap_or_default().trim_end_matches('/').to_owned();
            !server.address.is_empty()
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// RP-9.2
fn consumers_get_the_current_runs_of_successes(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let server = Server::start(&world);
    let both = text(&days[0], 1) + &text(&days[1], 1);
    assert_eq!(ask(&server.address, "GET /v1/data?all=true").body(), (both.clone(), true));
    assert_eq!(ask(&server.address, "GET /v1/data?source=ads").body(), (both, true));
    let one = ask(&server.address, "GET /v1/data?logical_date=2026-01-02");
    assert_eq!(one.body(), (text(&days[1], 1), true));
    assert!(one.head.contains("content-type: application/jsonl"), "{}", one.head);
    for (path, status, code) in [
        ("/v1/data", 422, "empty_filter"),
        ("/v1/data?logical_date=2026-01-03", 404, "not_found"),
        ("/v1/data?status=failed", 422, "unusable"),
    ] {
        let answer = ask(&server.address, &format!("GET {path}"));
        assert!(answer.status == status && answer.text().contains(code), "{path}: {}", answer.text());
    }
}

fn damage(world: &MigratedProgram, day: &PartitionKey) {
    let file = current_directory(world, day).join("part-00000.jsonl.zst");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[9] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

/// Before anything is sent, damage is refused in words.
fn a_damaged_first_part_is_refused(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    damage(&world, &days[0]);
    let server = Server::start(&world);
    let answer = ask(&server.address, "GET /v1/data?all=true");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("sink_unavailable") && answer.text().contains("part-00000"), "{}", answer.text());
}

/// A damaged part ends the stream without its last chunk: no caller takes a part for the whole.
fn a_damaged_part_ends_the_stream_early(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    damage(&world, &days[1]);
    let server = Server::start(&world);
    let (body, is_whole) = ask(&server.address, "GET /v1/data?all=true").body();
    assert!(!is_whole, "{body}");
    // What was written just before the connection was cut, the head too, may not have arrived.
    assert!(text(&days[0], 1).starts_with(&body), "{body}");
}

redrive_fixture::on_both!(
    consumers_get_the_current_runs_of_successes,
    a_damaged_first_part_is_refused,
    a_damaged_part_ends_the_stream_early,
);
