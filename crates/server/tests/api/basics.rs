//! What holds for every request: problems, ids, hosts, headers, base path, and what the first routes answer.

use redrive_fixture::{TestDatabase, TestStore, on_both_databases};
use redrive_server::{Code, routes};

use crate::client::{Call, get};
use crate::served::{Served, in_words};

async fn status_is_what_the_command_prints(served: Served) {
    let key = redrive_core::key::PartitionKey::new("ads", "1", "daily", "2026-01-01").unwrap();
    served.store.failed(&key).await;
    served.store.submit(&["any%"]).await;
    let status = served.send(get("/v1/status")).await.done(200);
    let command = status["needs_attention"][0]["command"].as_str().unwrap();
    assert!(command.starts_with("type ForeseeCancel"), "{status}");
    assert_eq!(status["sources"][0]["source"], "ads");
    let insight = served.app.insight();
    let expected = serde_json::to_value(insight.overview(None, "abc", in_words).await.unwrap()).unwrap();
    assert_eq!(status, expected);
    let other = served.send(get("/v1/status?source=crm")).await.done(200);
    assert_eq!(other["sources"], serde_json::json!([]));
}

async fn a_run_shows_how_it_stands(served: Served) {
    let id = served.store.submit(&["any%"]).await[0];
    let run = served.send(get(&format!("/v1/worker/runs/{id}/status"))).await.done(200);
    let fields: Vec<&String> = run.as_object().unwrap().keys().collect();
    let promised = [
        "id",
        "workload",
        "category",
        "status",
        "state",
        "task_id",
        "retry_count",
        "next_retry_at",
        "error_class",
        "error_message",
        "error_traceback",
        "submitted_at",
        "started_at",
        "last_heartbeat",
        "completed_at",
        "metrics",
    ];
    let mut sorted = promised;
    sorted.sort_unstable();
    assert_eq!(fields, sorted);
    assert_eq!((run["id"].as_str().unwrap(), run["status"].as_str().unwrap()), (id.to_string().as_str(), "discovered"));
    served.send(get("/v1/worker/runs/019a8f00-1111-7222-8333-444455556666/status")).await.problem(404, "not_found");
    served.send(get("/v1/worker/runs/x/status")).await.problem(400, "bad_request");
}

on_both_databases!(status_is_what_the_command_prints, a_run_shows_how_it_stands);

#[tokio::test]
async fn every_answer_has_its_headers_and_its_id() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    for path in ["/healthz", "/nowhere", "/problems/bad_cursor"] {
        let reply = served.send(get(path)).await;
        let csp = reply.header("content-security-policy").unwrap();
        assert_eq!(
            csp,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin"));
        assert!(reply.header("x-request-id").is_some());
    }
    let given = served.send(get("/nowhere").header("X-Request-Id", "from-my-proxy.7")).await;
    assert_eq!(given.header("x-request-id"), Some("from-my-proxy.7"));
    assert_eq!(given.problem(404, "not_found")["request_id"], "from-my-proxy.7");
    let forged = served.send(get("/nowhere").header("X-Request-Id", "a b\tc")).await;
    assert_ne!(forged.header("x-request-id"), Some("a b\tc"));
}

#[tokio::test]
async fn a_foreign_host_is_refused_on_every_route() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    for route in routes::table() {
        let path = route.path.replace(['{', '}'], "");
        let call = Call { method: route.method.to_string(), ..get(&path) };
        for host in ["evil.example", "127.0.0.1.evil.example:7117"] {
            served.send(call.clone().header("Host", host)).await.problem(403, "foreign_host");
        }
    }
    assert_eq!(served.send(get("/healthz").header("Host", "localhost:1")).await.status, 200);
    let two = get("/healthz").header("Host", "localhost").header("Host", "evil.example");
    served.send(two).await.problem(400, "bad_request");
}

#[tokio::test]
async fn what_is_unknown_is_told_as_a_problem() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    served.send(get("/v1/nothing")).await.problem(404, "not_found");
    let post = Call { method: "POST".to_owned(), ..get("/v1/status") };
    let reply = served.send(post).await;
    assert_eq!(reply.header("allow"), Some("GET,HEAD"));
    reply.problem(405, "method_not_allowed");
    let unknown = served.send(get("/v1/status?sorce=ads")).await.problem(400, "bad_request");
    assert!(unknown["detail"].as_str().unwrap().contains("sorce"), "{unknown}");
    served.send(get("/v1/status?source=a&source=b")).await.problem(400, "bad_request");
}

#[tokio::test]
async fn every_problem_has_a_page() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    for code in Code::all() {
        let page = served.send(get(&format!("/problems/{code}"))).await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.text().contains(code.explained()), "{code}");
    }
    served.send(get("/problems/none")).await.problem(404, "not_found");
}

#[tokio::test]
async fn everything_lies_under_the_base_path() {
    let served =
        Served::with(TestDatabase::sqlite(), |settings| settings.base_path = "/redrive/".parse().unwrap()).await;
    assert_eq!(served.send(get("/healthz")).await.status, 200);
    let problem = served.send(get("/v1/worker/runs/x/status")).await.problem(400, "bad_request");
    assert_eq!(problem["type"], "/redrive/problems/bad_request");
    let page = get(problem["type"].as_str().unwrap()).send(served.address).await;
    assert_eq!(page.status, 200);
    get("/healthz").send(served.address).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_server_that_only_reads_changes_nothing() {
    let served = Served::with(TestDatabase::sqlite(), |settings| settings.read_only = true).await;
    // A stream has no end; events.rs follows one.
    for route in routes::table().into_iter().filter(|route| route.path != "/events") {
        let path = route.path.replace(['{', '}'], "");
        let reply = served.send(Call { method: route.method.to_string(), ..get(&path) }).await;
        match route.changes {
            true => drop(reply.problem(403, "read_only")),
            false => assert_ne!(reply.status, 403, "{} {path}", route.method),
        }
    }
}

#[tokio::test]
async fn a_server_is_ready_while_its_database_and_its_sink_answer() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    assert_eq!(served.send(get("/readyz")).await.done(200)["status"], "ready");
    served.app.drain();
    served.send(get("/readyz")).await.problem(503, "draining");
    assert_eq!(served.send(get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn a_stop_closes_what_is_idle_and_answers_what_is_under_way() {
    let mut served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let idle = tokio::net::TcpStream::connect(served.address).await.unwrap();
    assert_eq!(served.send(get("/healthz")).await.status, 200);
    let begun = std::time::Instant::now();
    served.stop().await;
    assert!(begun.elapsed().as_secs() < 3, "{:?}", begun.elapsed());
    drop(idle);
    assert!(tokio::net::TcpStream::connect(served.address).await.is_err(), "nothing is accepted any more");
    let _: &TestStore = &served.store;
}
