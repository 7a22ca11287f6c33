//! SV-3, SV-5: changes by filter, plans, operations, and Idempotency-Key, over HTTP.

use redrive_core::key::PartitionKey;
use redrive_fixture::{boom, eventually};
use serde_json::{Value, json};

use crate::client::{Call, get, post};
use crate::served::Served;

fn days(count: i64) -> Vec<PartitionKey> {
    let first = jiff::civil::date(2016, 1, 1);
    let day = |nth| first.checked_add(jiff::Span::new().days(nth)).unwrap().to_string();
    (0..count).map(|nth| PartitionKey::new("ads", "1", "daily", &day(nth)).unwrap()).collect()
}

fn retry(more: Value) -> Call {
    let mut body = json!({"filter": {"source": "ads"}, "allow_missing_raw": true});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    post("/v1/state/retry").json(&body)
}

/// The state of an operation once it has ended.
async fn ended(served: &Served, place: &str) -> Value {
    let mut operation = Value::Null;
    eventually("the operation has ended", async || {
        operation = served.send(get(place)).await.done(200);
        operation["state"] != "running"
    })
    .await;
    operation
}

/// The command line's report, and what keeps a caller from changing too much.
async fn few_are_changed_at_once_and_many_must_be_confirmed(served: Served) {
    served.store.judged(days(30), boom()).await;
    served.send(post("/v1/state/retry").json(&json!({}))).await.problem(422, "empty_filter");
    let dry = served.send(retry(json!({"dry_run": true}))).await.done(200);
    assert_eq!((&dry["dry_run"], dry["changed"].as_array().unwrap().len()), (&json!(true), 30));
    let refused = served.send(retry(json!({}))).await.problem(409, "confirmation_required");
    assert_eq!(refused["matched"], 30);
    served.send(retry(json!({"confirm": 29}))).await.problem(409, "confirmation_required");
    let report = served.send(retry(json!({"confirm": 30, "reason": "it is back"}))).await.done(200);
    assert_eq!((&report["operation"], report["changed"].as_array().unwrap().len()), (&json!("retry"), 30));
    let op = report["op_id"].as_str().unwrap();
    let operation = served.send(get(&format!("/v1/operations/{op}"))).await.done(200);
    assert_eq!(
        (&operation["state"], &operation["changed"], &operation["reason"]),
        (&json!("done"), &json!(30), &json!("it is back"))
    );
    served.send(post("/v1/state/explode").json(&json!({"all": true}))).await.problem(404, "not_found");
    served.send(retry(json!({"filter": {"sauce": "ads"}}))).await.problem(422, "bad_body");
}

/// SV-5: plan, apply, progress, outcome of each item, undo.
async fn a_plan_becomes_an_operation_that_can_be_undone(served: Served) {
    served.store.judged(days(3), boom()).await;
    let body = json!({"verb": "retry", "filter": {"source": "ads"}, "allow_missing_raw": true, "reason": "it is back"});
    let plan = served.send(post("/v1/plans").json(&body)).await.done(201);
    assert_eq!((&plan["matched"], &plan["would_change"]), (&json!(3), &json!(3)));
    let place = format!("/v1/plans/{}", plan["plan_id"].as_str().unwrap());
    assert_eq!(served.send(get(&place)).await.done(200), plan);
    let reply = served.send(post(&format!("{place}/apply")).json(&json!({}))).await;
    let operation = reply.header("location").unwrap().to_owned();
    reply.done(202);
    let done = ended(&served, &operation).await;
    assert_eq!((&done["state"], &done["changed"], &done["reason"]), (&json!("done"), &json!(3), &json!("it is back")));
    let items = served.send(get(&format!("{operation}/items?outcome=changed&limit=2"))).await.done(200);
    assert_eq!((&items["items"][0]["from"], &items["items"][0]["to"]), (&json!("failed"), &json!("pending")));
    assert_eq!((items["items"].as_array().unwrap().len(), items["next"].is_string()), (2, true));
    let undo = served.send(post(&format!("{operation}/undo")).json(&json!({}))).await;
    let place = undo.header("location").unwrap().to_owned();
    assert_eq!(ended(&served, &place).await["changed"], 3);
    let listed = served.send(get("/v1/operations")).await.done(200);
    assert_eq!(listed["operations"][0]["undo_of"], done["op_id"]);
    served.send(get("/v1/plans/019a8f00-1111-7222-8333-444455556666")).await.problem(404, "not_found");
}

/// A change of one partition happens to the version that was seen.
async fn a_partition_is_changed_only_as_it_was_seen(served: Served) {
    served.store.judged(days(2), boom()).await;
    let path = "/v1/partitions/ads/1/daily/2016-01-01";
    let tag = served.send(get(path)).await.header("etag").unwrap().to_owned();
    let one = json!({"source": "ads", "customer_id": "1", "query_name": "daily", "logical_date": "2016-01-01"});
    let pause = |filter: &Value, tag: &str| {
        served.send(post("/v1/state/pause").json(&json!({"filter": filter})).header("If-Match", tag))
    };
    pause(&one, "\"v999\"").await.problem(412, "changed_since_plan");
    pause(&json!({"source": "ads"}), &tag).await.problem(422, "unusable");
    assert_eq!(served.send(get(path)).await.done(200)["paused"], Value::Null, "nothing was changed");
    assert_eq!(pause(&one, &tag).await.done(200)["changed"].as_array().unwrap().len(), 1);
    pause(&one, &tag).await.problem(412, "changed_since_plan");
}

/// An option that a verb does not know is no option that it passes over.
async fn an_option_that_says_nothing_is_refused(served: Served) {
    for (verb, option) in [("pause", "stale"), ("retry", "withdraw"), ("resume", "force_pending"), ("retry", "runs")] {
        let mut body = json!({"filter": {"source": "ads"}});
        body[option] = if option == "runs" { json!([]) } else { json!(true) };
        let problem = served.send(post(&format!("/v1/state/{verb}")).json(&body)).await.problem(422, "unusable");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{option}"));
    }
    let number = json!({"filter": {"customer_id": 1}});
    served.send(post("/v1/state/pause").json(&number)).await.problem(422, "bad_body");
    served.send(post("/v1/plans").json(&json!({"verb": "explode"}))).await.problem(422, "bad_body");
}

/// An operation on holds is undone over HTTP too; whole sources are an admin's.
async fn a_hold_is_taken_back_by_undo(served: Served) {
    let whole = served.send(post("/v1/holds").json(&json!({"source": "ads"}))).await.done(201);
    assert_eq!(whole["customer_id"], Value::Null);
    let op = served.send(get("/v1/operations")).await.done(200)["operations"][0].clone();
    assert_eq!((&op["operation"], &op["changed"]), (&json!("hold"), &json!(1)));
    let path = format!("/v1/operations/{}/undo", op["op_id"].as_str().unwrap());
    let token = served.token(redrive_core::role::Role::Operator).await;
    let operator = post(&path).json(&json!({})).header("Authorization", &format!("Bearer {token}"));
    served.send(operator).await.problem(403, "forbidden");
    let undo = served.send(post(&path).json(&json!({"reason": "it is well again"}))).await;
    let place = undo.header("location").unwrap().to_owned();
    let undone = ended(&served, &place).await;
    assert_eq!((&undone["state"], &undone["changed"], &undone["undo_of"]), (&json!("done"), &json!(1), &op["op_id"]));
    assert_eq!(served.send(get("/v1/holds")).await.done(200)["holds"], json!([]));
}

/// Many are changed in steps while the caller goes on.
async fn many_are_changed_in_steps(served: Served) {
    served.store.judged(days(1_200), boom()).await;
    let reply = served.send(retry(json!({"confirm": 1_200}))).await;
    let place = reply.header("location").unwrap().to_owned();
    reply.done(202);
    let done = ended(&served, &place).await;
    assert_eq!((&done["state"], &done["changed"]), (&json!("done"), &json!(1_200)));
}

/// SV-3: the same key and body, the same answer, marked; another body is refused; what changed nothing may be sent again.
async fn a_key_makes_a_change_once(served: Served) {
    served.store.judged(days(2), boom()).await;
    let keyed = |call: Call| call.header("Idempotency-Key", "k1");
    served.send(keyed(post("/v1/state/retry").json(&json!({})))).await.problem(422, "empty_filter");
    let first = served.send(keyed(retry(json!({})))).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None));
    let again = served.send(keyed(retry(json!({})))).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json(), first.json());
    served.send(keyed(retry(json!({"reason": "another"})))).await.problem(422, "idempotency_key_reused");
    let without = served.send(retry(json!({}))).await.done(200);
    assert_eq!(without["changed"], json!([]), "done again, it finds nothing to do");
}

redrive_fixture::on_both_databases!(
    few_are_changed_at_once_and_many_must_be_confirmed,
    a_plan_becomes_an_operation_that_can_be_undone,
    a_partition_is_changed_only_as_it_was_seen,
    an_option_that_says_nothing_is_refused,
    a_hold_is_taken_back_by_undo,
    many_are_changed_in_steps,
    a_key_makes_a_change_once,
);
