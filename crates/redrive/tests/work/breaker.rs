//! A backlog behind an expired token, with a real server and a worker as it comes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::home::TestProgram;
use crate::rig::TestProcesses;

/// Answers with 401 and a request id of its own until the token is mended, and then with one record. It ends with the
/// test's process.
fn server_with_a_token() -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    std::thread::spawn(move || {
        for (nth, stream) in listener.incoming().enumerate() {
            let (mut stream, is_mended) = (stream.unwrap(), Arc::clone(&is_mended));
            std::thread::spawn(move || {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if !matches!(stream.read(&mut byte), Ok(1)) {
                        return;
                    }
                    request.push(byte[0]);
                }
                let (status, body) = match is_mended.load(Ordering::SeqCst) {
                    true => ("200 OK", r#"[{"id":1}]"#.to_owned()),
                    false => ("401 Unauthorized", format!(r#"{{"error":"token expired","request":"req-{nth:08x}"}}"#)),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            });
        }
    });
    (port, mended)
}

/// OP-4
fn an_expired_token_costs_a_few_partitions_and_mends_itself(subject: TestProgram) {
    behind_an_expired_token(subject, 4);
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_an_expired_token_before_five_thousand_partitions_on_sqlite() {
    behind_an_expired_token(TestDatabase::sqlite().into(), 20);
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn long_an_expired_token_before_five_thousand_partitions_on_postgres() {
    behind_an_expired_token(TestDatabase::postgres().into(), 20);
}

/// With 250 days of each customer.
fn behind_an_expired_token(subject: TestProgram, customers: i64) {
    let wanted = 250 * customers;
    let (port, mended) = server_with_a_token();
    let settings = format!(
        r#"
[sources.api.extract]
kind = "http"
url = "http://127.0.0.1:{port}/{{logical_date}}"
allow_private = true
[sources.api.breaker]
probe = "2s"
"#
    );
    let rig = TestProcesses::new(subject, &settings);
    for customer in 0..customers {
        rig.want("api", &format!("c{customer}"), "q", "2026-09-07");
    }
    let number = |sql: &str| rig.number(sql);
    assert_eq!(number("SELECT count(*) FROM partitions"), wanted);
    rig.redrive("worker --drain").done();
    let failed = number("SELECT count(*) FROM partitions WHERE status = 'failed'");
    assert!((20..=25).contains(&failed), "{failed} failed");
    let untouched = "SELECT count(*) FROM partitions WHERE status = 'pending' AND attempt_count = 0";
    assert_eq!(number(untouched), wanted - failed);
    assert_eq!(number("SELECT count(DISTINCT error_group) FROM partitions WHERE status = 'failed'"), 1);
    let held = rig.redrive("state hold list -o json").done().json();
    let hold = held["holds"].as_array().unwrap().iter().find(|hold| hold["customer_id"].is_null()).unwrap();
    assert_eq!((hold["kind"].as_str(), hold["source"].as_str()), (Some("breaker"), Some("api")), "{held}");
    let explain = "state explain --source api --customer-id c3 --query-name q --logical-date 2026-09-07 -o json";
    assert_eq!(rig.redrive(explain).done().json()["reason"], "breaker_open");

    mended.store(true, Ordering::SeqCst);
    let _worker = rig.spawn("worker");
    until_within(Duration::from_secs(300), "a canary has let all others go", || {
        number("SELECT count(*) FROM partitions WHERE status = 'success'") >= wanted - 25
            && number("SELECT count(*) FROM partitions WHERE status = 'pending'") == 0
    });
    assert_eq!(number("SELECT count(*) FROM holds WHERE kind = 'breaker'"), 0);
    rig.redrive("state retry --source api --status failed -y --reason mended").done();
    until_within(Duration::from_secs(120), "those that failed are done too", || {
        number("SELECT count(*) FROM partitions WHERE status = 'success'") == wanted
    });
    rig.redrive("state audit verify").done();
}

redrive_fixture::on_both!(an_expired_token_costs_a_few_partitions_and_mends_itself);
