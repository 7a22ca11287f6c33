//! Looking at everything else: groups, processes, the trail, the heatmap, what workers report.

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::role::Role;
use redrive_core::run::{End, Fault};
use redrive_fixture::{boom, on_both_databases};
use serde_json::{Value, json};

use crate::client::{Call, get, post};
use crate::served::Served;

fn key(customer: &str, day: &str) -> PartitionKey {
    PartitionKey::new("ads", customer, "daily", day).unwrap()
}

async fn groups_and_processes_are_what_the_commands_print(served: Served) {
    served.store.judged(vec![key("1", "2025-11-01"), key("2", "2025-11-01")], boom()).await;
    let groups = served.send(get("/v1/groups?source=ads")).await.done(200);
    assert_eq!((&groups["groups"][0]["count"], &groups["groups"][0]["customer_count"]), (&json!(2), &json!(2)));
    assert_eq!(served.send(get("/v1/groups?source=crm")).await.done(200), json!({"groups": []}));
    assert_eq!(served.send(get("/v1/processes")).await.done(200), json!({"processes": []}));
}

async fn the_trail_is_listed_page_by_page_and_whole(served: Served) {
    served.store.judged((1..=9).map(|day| key("1", &format!("2025-11-0{day}"))).collect(), boom()).await;
    let hold = post("/v1/holds").json(&json!({"source": "ads", "customer_id": "1", "reason": "billing"}));
    served.send(hold).await.done(201);
    let first = served.send(get("/v1/audit?limit=1")).await.done(200);
    let newest = &first["operations"][0];
    assert_eq!((&newest["command"], &newest["reason"]), (&"POST /v1/holds".into(), &"billing".into()));
    let next = format!("/v1/audit?limit=1&cursor={}", first["next"].as_str().unwrap());
    let want = served.send(get(&next)).await.done(200);
    let want = want["operations"][0].clone();
    assert_eq!((&want["command"], &want["changes"]), (&"want".into(), &json!(9)));
    assert_eq!(served.send(get("/v1/audit?operation=holds")).await.done(200)["operations"], json!([]));
    let path = format!("/v1/audit/{}", want["op_id"].as_str().unwrap());
    let mut days = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = served.send(get(&format!("{path}?limit=4{cursor}"))).await.done(200);
        assert_eq!(page["op_id"], want["op_id"]);
        days.extend(page["changes"].as_array().unwrap().iter().map(|change| change["logical_date"].clone()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(days.len(), 9, "{days:?}");
    let lines = served.send(get(&path).header("Accept", "application/jsonl")).await;
    assert_eq!(lines.lines().len(), 9);
    assert_eq!(served.send(get("/v1/audit/verify")).await.done(200)["whole"], true);
    served.send(get("/v1/audit/019a8f00-1111-7222-8333-444455556666")).await.problem(404, "not_found");
    served.send(get("/v1/audit/x")).await.problem(400, "bad_request");
}

async fn the_heatmap_has_a_byte_for_each_day(served: Served) {
    served.store.judged(vec![key("1", "2025-11-02"), key("2", "2025-11-01"), key("3", "2025-11-03")], boom()).await;
    let tile =
        async |query: &str| served.send(get(&format!("/v1/heatmap?since=2025-11-01&until=2025-11-03{query}"))).await;
    let whole = tile("").await.done(200);
    assert_eq!(whole["cells"], "AAMAAwAAAAAD", "three rows of three days, failed on one of them each");
    assert_eq!((&whole["legend"]["3"], &whole["next"]), (&"failed".into(), &Value::Null));
    let first = tile("&limit=2").await.done(200);
    assert_eq!(first["series"].as_array().unwrap().len(), 2);
    let rest = tile(&format!("&limit=2&after={}", first["next"].as_str().unwrap())).await.done(200);
    assert_eq!((&rest["series"][0]["customer_id"], &rest["next"]), (&"3".into(), &Value::Null));
    tile("&source=crm&after=zz").await.problem(400, "bad_cursor");
    served.send(get("/v1/heatmap?since=2025-11-01")).await.problem(400, "bad_request");
    served.send(get("/v1/heatmap?since=2016-01-01&until=2025-11-03")).await.problem(422, "unusable");
}

/// IN-11
async fn the_metrics_of_a_workload_are_told(served: Served) {
    served.store.submit(&["a", "a"]).await;
    let run = served.store.claim_jobs(1).await.remove(0);
    let fault = Fault { class: ErrorClass::Retryable, message: "reset".to_owned(), trace: None, retry_after: None };
    served
        .store
        .report(&run, End::Failed { fault, metrics: None, policy: redrive_core::retry::RetryPolicy::process() })
        .await;
    let metrics = served.send(get("/v1/worker/metrics?workload=process")).await.done(200);
    assert_eq!(metrics["status_counts"], json!({"queued": 1, "waiting": 1}));
    assert_eq!(metrics["recent_failures"][0]["error_message"], "reset");
    assert_eq!((&metrics["retry_stats"]["retried_runs"], &metrics["avg_duration"]), (&json!(0), &Value::Null));
    assert_eq!(served.send(get("/v1/worker/metrics")).await.done(200)["status_counts"], json!({}));
    served.send(get("/v1/worker/metrics?workload=x")).await.problem(400, "bad_request");
}

/// Jobs are submitted one by one or many together, and each by its external id once.
async fn jobs_are_submitted(served: Served) {
    let job = json!({"category": "a", "external_id": "x-1", "payload": {"n": 1}});
    let first = served.send(post("/v1/runs").json(&job)).await.done(201);
    assert_eq!(first["runs"][0]["existing"], false);
    let again = served.send(post("/v1/runs").json(&job)).await.done(201);
    assert_eq!((&again["runs"][0]["id"], &again["runs"][0]["existing"]), (&first["runs"][0]["id"], &true.into()));
    let lines = |text: &str| {
        let call = Call { body: text.as_bytes().to_vec(), ..post("/v1/runs") };
        served.send(call.header("Content-Type", "application/jsonl"))
    };
    let many = lines("{\"category\":\"a\"}\n\n{\"category\":\"b\"}\n").await.done(201);
    assert_eq!(many["runs"].as_array().unwrap().len(), 2);
    let bad = lines("{\"category\":\"a\"}\n{\"category\":}\n").await.problem(422, "bad_body");
    assert_eq!(bad["errors"][0]["pointer"], "/1", "{bad}");
    let all = served.send(get("/v1/runs?count=bounded")).await.done(200);
    assert_eq!(all["count"], 3, "of a body with a mistake nothing is submitted");
    served.send(post("/v1/runs").json(&json!({"payload": 1}))).await.problem(422, "bad_body");
    served.send(post("/v1/runs")).await.problem(415, "unsupported_media_type");
}

async fn an_upload_goes_into_the_sink(served: Served) {
    let raw = |name: &str, text: &str| {
        let call = Call { body: text.as_bytes().to_vec(), ..post(&format!("/v1/uploads?file={name}")) };
        served.send(call.header("Content-Type", "application/octet-stream"))
    };
    let taken = raw("props.conf", "[a]\nb = 1\n").await.done(202);
    assert_eq!((&taken["runs"][0]["file"], &taken["runs"][0]["status"]), (&"props.conf".into(), &"STORED".into()));
    let form = "--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.conf\"\r\n\r\n[a]\nb = 1\n\r\n\
        --xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b.conf\"\r\n\r\n[c]\n\r\n--xx--\r\n";
    let call = Call { body: form.as_bytes().to_vec(), ..post("/v1/uploads") };
    let both = served.send(call.header("Content-Type", "multipart/form-data; boundary=xx")).await.done(202);
    assert_eq!(both["runs"].as_array().unwrap().len(), 2);
    assert_eq!(both["runs"][0]["same_as"], taken["runs"][0]["id"], "the same bytes were there before");
    let listed = served.send(get("/v1/uploads")).await.done(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 3);
    let id = taken["runs"][0]["id"].as_str().unwrap();
    let status = served.send(get(&format!("/v1/worker/runs/{id}/status"))).await.done(200);
    assert_eq!((&status["status"], &status["workload"]), (&"STORED".into(), &"ingest".into()));
    served.send(post("/v1/uploads")).await.problem(422, "unusable");
    raw("large", &"x".repeat(5000)).await.problem(413, "too_large");
    assert_eq!(served.send(get(&format!("/v1/uploads/{id}/stanzas"))).await.done(200)["stanzas"], json!([]));
    served.send(get("/v1/search")).await.problem(422, "empty_filter");
    assert_eq!(served.send(get("/v1/search?key=b")).await.done(200)["settings"], json!([]));
    let dirty = raw("dirty.conf", "[a]\nno equals sign\n").await.done(202);
    let path = format!("/v1/uploads/{}/lint", dirty["runs"][0]["id"].as_str().unwrap());
    let findings = served.send(get(&path)).await.done(200);
    assert_eq!(findings["findings"][0]["source_path"], "dirty.conf", "{findings}");
    let diff = served.send(get(&format!("/v1/uploads/{id}/diff/{id}"))).await.done(200);
    assert_eq!(diff, json!({"changes": [], "is_cut": false}));
}

/// Payloads, values of configurations and raw data are not for viewers.
#[tokio::test]
async fn a_viewer_sees_neither_payloads_nor_raw_data() {
    let served = Served::abroad(redrive_fixture::TestDatabase::sqlite(), |_| {}).await;
    let viewer = format!("Bearer {}", served.token(Role::Viewer).await);
    let operator = format!("Bearer {}", served.token(Role::Operator).await);
    let job = json!({"category": "a", "payload": {"password": "hunter2"}});
    let made = served.send(post("/v1/runs").json(&job).header("Authorization", &operator)).await.done(201);
    let id = made["runs"][0]["id"].as_str().unwrap();
    for route in redrive_server::routes::table() {
        // A stream has no end; events.rs follows one.
        if route.method != "GET" || route.path == "/events" || !route.access.admits(Role::Viewer) {
            continue;
        }
        let path = route.path.replace("{id}", id).replace(['{', '}'], "");
        let reply = served.send(get(&path).header("Authorization", &viewer)).await;
        assert!(!reply.text().contains("hunter2"), "{path}: {}", reply.text());
    }
    for path in ["/v1/data?all=true", "/v1/search?key=x", &format!("/v1/uploads/{id}/stanzas")] {
        served.send(get(path).header("Authorization", &viewer)).await.problem(403, "forbidden");
    }
}

on_both_databases!(
    groups_and_processes_are_what_the_commands_print,
    the_trail_is_listed_page_by_page_and_whole,
    the_heatmap_has_a_byte_for_each_day,
    the_metrics_of_a_workload_are_told,
    jobs_are_submitted,
    an_upload_goes_into_the_sink,
);
