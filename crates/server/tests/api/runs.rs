//! Runs and holds: looked at, and changed by somebody whose name is kept.

use redrive_fixture::on_both_databases;
use serde_json::json;

use crate::client::{Call, get, post};
use crate::served::Served;

async fn a_run_is_changed_only_as_it_was_seen(served: Served) {
    let id = served.store.submit(&["a"]).await[0];
    let seen = served.send(get(&format!("/v1/runs/{id}"))).await;
    let tag = seen.header("etag").unwrap().to_owned();
    let cancel = || post(&format!("/v1/runs/{id}/cancel"));
    let stale = served.send(cancel().header("If-Match", "\"v999\"")).await;
    stale.problem(412, "changed_since_plan");
    assert_eq!(served.store.run(id).await.state.as_str(), "queued", "nothing was changed");
    let report = served.send(cancel().header("If-Match", &tag)).await.done(200);
    assert_eq!(report["changed"][0]["to"], "dead", "{report}");
    let operation = served.store.store.view().operations(None, 1).await.unwrap().remove(0).operation;
    assert_eq!((operation.actor.as_str(), operation.command.as_str()), ("local", "POST /v1/runs/{id}/cancel"));
    let retried = served.send(post(&format!("/v1/runs/{id}/retry"))).await.done(200);
    assert_eq!(retried["changed"][0]["to"], "queued");
    served.send(post("/v1/runs/019a8f00-1111-7222-8333-444455556666/retry")).await.problem(404, "not_found");
}

async fn a_hold_is_set_seen_and_lifted(served: Served) {
    let set = |body| served.send(post("/v1/holds").json(&body));
    let hold = set(json!({"source": "ads", "customer_id": "1", "reason": "billing"})).await.done(201);
    assert_eq!((&hold["kind"], &hold["by"], &hold["why"]), (&"operator".into(), &"local".into(), &"billing".into()));
    let listed = served.send(get("/v1/holds")).await.done(200);
    assert_eq!(listed["holds"], json!([hold]));
    let whole = set(json!({"source": "ads"})).await.done(201);
    let lift = |hold: &serde_json::Value| {
        let path = format!("/v1/holds/{}", hold["id"].as_str().unwrap());
        Call { method: "DELETE".to_owned(), ..get(&path) }
    };
    assert_eq!(served.send(lift(&whole)).await.status, 204);
    let left = served.send(get("/v1/holds")).await.done(200);
    assert_eq!(left["holds"], json!([hold]), "only the one that was named is lifted");
    served.send(lift(&whole)).await.problem(404, "not_found");
    let faults = [
        (json!({"source": ""}), "bad_body", "/source"),
        (json!({"source": "ads", "query_name": "q"}), "unusable", "/customer_id"),
        (json!({"source": "ads", "until": "2020-01-01T00:00:00Z"}), "unusable", "/until"),
        (json!({"source": "ads", "reson": "x"}), "bad_body", "/reson"),
        (json!({"source": "ads", "customer_id": "1", "reason": "a\u{0}b"}), "bad_body", "/reason"),
        (json!([]), "bad_body", ""),
    ];
    for (body, code, pointer) in faults {
        let problem = set(body).await.problem(422, code);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let plain = post("/v1/holds").header("Content-Type", "text/plain");
    served.send(plain).await.problem(415, "unsupported_media_type");
    let large = Call { body: vec![b' '; (1 << 20) + 1], ..post("/v1/holds") };
    served.send(large.header("Content-Type", "application/json")).await.problem(413, "too_large");
}

on_both_databases!(a_run_is_changed_only_as_it_was_seen, a_hold_is_set_seen_and_lifted);
