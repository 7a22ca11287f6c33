//! Who may call what: every route with every kind of caller, against the table.

use std::time::Duration;

use redrive_core::role::Role;
use redrive_fixture::TestDatabase;
use redrive_server::routes::{self, Access, Route};

use crate::client::{Call, get};
use crate::served::Served;

/// The table, written down a second time: a route that is new, or whose role changes, has to be looked at here too.
const EXPECTED: &[(&str, &str, Access)] = &[
    ("GET", "/healthz", Access::Anyone),
    ("GET", "/readyz", Access::Viewer),
    ("GET", "/metrics", Access::Viewer),
    ("GET", "/events", Access::Viewer),
    ("GET", "/problems/{code}", Access::Anyone),
    ("GET", "/openapi.json", Access::Viewer),
    ("GET", "/docs", Access::Viewer),
    ("GET", "/login", Access::Anyone),
    ("GET", "/login.js", Access::Anyone),
    ("POST", "/login", Access::Anyone),
    ("POST", "/logout", Access::Anyone),
    ("POST", "/logout/everywhere", Access::Viewer),
    ("GET", "/v1/status", Access::Viewer),
    ("GET", "/v1/partitions", Access::Viewer),
    ("GET", "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}", Access::Viewer),
    ("GET", "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/explain", Access::Viewer),
    ("GET", "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history", Access::Viewer),
    ("GET", "/v1/runs", Access::Viewer),
    ("GET", "/v1/runs/{id}", Access::Viewer),
    ("GET", "/v1/runs/{id}/explain", Access::Viewer),
    ("GET", "/v1/runs/{id}/history", Access::Viewer),
    ("POST", "/v1/runs/{id}/retry", Access::Operator),
    ("POST", "/v1/runs/{id}/cancel", Access::Operator),
    ("GET", "/v1/holds", Access::Viewer),
    ("POST", "/v1/holds", Access::Operator),
    ("DELETE", "/v1/holds/{id}", Access::Operator),
    ("GET", "/v1/worker/runs/{id}/status", Access::Viewer),
    ("GET", "/v1/worker/metrics", Access::Viewer),
    ("GET", "/v1/heatmap", Access::Viewer),
    ("GET", "/v1/groups", Access::Viewer),
    ("GET", "/v1/processes", Access::Viewer),
    ("POST", "/v1/processes/{name}/drain", Access::Operator),
    ("POST", "/v1/runs", Access::Operator),
    ("GET", "/v1/uploads", Access::Viewer),
    ("POST", "/v1/uploads", Access::Operator),
    ("GET", "/v1/uploads/{id}/stanzas", Access::Operator),
    ("GET", "/v1/uploads/{id}/effective", Access::Operator),
    ("GET", "/v1/uploads/{id}/lint", Access::Operator),
    ("GET", "/v1/uploads/{id}/diff/{other}", Access::Operator),
    ("GET", "/v1/search", Access::Operator),
    ("GET", "/v1/data", Access::Operator),
    ("GET", "/v1/audit", Access::Viewer),
    ("GET", "/v1/audit/{op}", Access::Viewer),
    ("GET", "/v1/audit/verify", Access::Viewer),
    ("POST", "/v1/worker/claim", Access::Worker),
    ("POST", "/v1/worker/heartbeat", Access::Worker),
    ("POST", "/v1/worker/runs/{id}/complete", Access::Worker),
    ("POST", "/v1/worker/runs/{id}/fail", Access::Worker),
    ("POST", "/v1/worker/runs/{id}/release", Access::Worker),
    ("POST", "/v1/plans", Access::Operator),
    ("GET", "/v1/plans/{id}", Access::Viewer),
    ("POST", "/v1/plans/{id}/apply", Access::Operator),
    ("POST", "/v1/state/{verb}", Access::Operator),
    ("POST", "/v1/runs/retry", Access::Operator),
    ("POST", "/v1/runs/cancel", Access::Operator),
    ("GET", "/v1/operations", Access::Viewer),
    ("GET", "/v1/operations/{op}", Access::Viewer),
    ("GET", "/v1/operations/{op}/items", Access::Viewer),
    ("POST", "/v1/operations/{op}/cancel", Access::Operator),
    ("POST", "/v1/operations/{op}/undo", Access::Operator),
];

fn call(route: &Route) -> Call {
    let path = route.path.replace("{id}", "019a8f00-1111-7222-8333-444455556666").replace(['{', '}'], "");
    Call { method: route.method.to_string(), ..get(&path) }
}

#[test]
fn the_table_of_routes_is_the_one_that_was_agreed_on() {
    let table = routes::table();
    for route in &table {
        let expected =
            EXPECTED.iter().find(|(method, path, _)| *method == route.method.as_str() && *path == route.path);
        let (_, _, access) =
            expected.unwrap_or_else(|| panic!("{} {} is new; who may call it?", route.method, route.path));
        assert_eq!(route.access, *access, "{} {}", route.method, route.path);
        assert!(route.method != "GET" || !route.changes, "{} changes something by GET", route.path);
    }
    assert_eq!(table.len(), EXPECTED.len(), "a route is gone, or stands twice");
}

#[test]
fn roles_are_admitted_as_agreed_on() {
    let admitted = |access: Access| Role::ALL.iter().copied().filter(|role| access.admits(*role)).collect::<Vec<_>>();
    assert_eq!(admitted(Access::Anyone), Role::ALL);
    assert_eq!(admitted(Access::Viewer), [Role::Viewer, Role::Operator, Role::Admin]);
    assert_eq!(admitted(Access::Operator), [Role::Operator, Role::Admin]);
    assert_eq!(admitted(Access::Admin), [Role::Admin]);
    assert_eq!(admitted(Access::Worker), [Role::Admin, Role::Worker]);
}

/// Every route with nobody, every role, and tokens that count no more.
#[tokio::test]
async fn every_route_admits_whom_its_row_says() {
    let served = Served::abroad(TestDatabase::sqlite(), |_| {}).await;
    let (expired, revoked) =
        (served.token_named("old", Role::Admin).await, served.token_named("gone", Role::Admin).await);
    let operation = served.store.operation("token revoke");
    served.app.access().revoke_token(&operation, "gone").await.unwrap();
    served.store.clock.advance(Duration::from_secs(3601));
    let mut holders = Vec::new();
    for role in Role::ALL {
        holders.push((*role, served.token(*role).await));
    }
    for route in routes::table() {
        let call = call(&route);
        let shown = format!("{} {}", route.method, route.path);
        let reply = served.send(call.clone()).await;
        match route.access {
            Access::Anyone => assert_ne!(reply.status, 401, "{shown}"),
            Access::Viewer | Access::Operator | Access::Admin | Access::Worker => {
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
                reply.problem(401, "not_signed_in");
            }
        }
        for bad in [&expired, &revoked, &"rdr_admin_x".to_owned(), &expired.replace("admin", "viewer")] {
            let reply = served.send(call.clone().header("Authorization", &format!("Bearer {bad}"))).await;
            reply.problem(401, "not_signed_in");
        }
        for (role, token) in &holders {
            // A stream has no end; events.rs follows one.
            if route.path == "/events" && route.access.admits(*role) {
                continue;
            }
            let reply = served.send(call.clone().header("Authorization", &format!("Bearer {token}"))).await;
            match route.access.admits(*role) {
                true => assert!(![401, 403].contains(&reply.status), "{shown} as {role}: {}", reply.text()),
                false => drop(reply.problem(403, "forbidden")),
            }
        }
    }
    // What is not in the table is denied too.
    served.send(get("/v1/secrets")).await.problem(401, "not_signed_in");
    let viewer = format!("Bearer {}", holders[0].1);
    served.send(get("/v1/secrets").header("Authorization", &viewer)).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_whole_source_is_an_admins_to_hold() {
    let served = Served::abroad(TestDatabase::sqlite(), |_| {}).await;
    let (operator, admin) = (served.token(Role::Operator).await, served.token(Role::Admin).await);
    let hold = |token: &str, body: serde_json::Value| {
        let call = Call { method: "POST".to_owned(), ..get("/v1/holds") }.json(&body);
        served.send(call.header("Authorization", &format!("Bearer {token}")))
    };
    hold(&operator, serde_json::json!({"source": "ads"})).await.problem(403, "forbidden");
    let part = hold(&operator, serde_json::json!({"source": "ads", "customer_id": "1"})).await.done(201);
    assert_eq!(part["by"], "token:a operator");
    let whole = hold(&admin, serde_json::json!({"source": "ads"})).await.done(201);
    let path = format!("/v1/holds/{}", whole["id"].as_str().unwrap());
    let lift = Call { method: "DELETE".to_owned(), ..get(&path) };
    let lift = |token: &str| served.send(lift.clone().header("Authorization", &format!("Bearer {token}")));
    lift(&operator).await.problem(403, "forbidden");
    assert_eq!(lift(&admin).await.status, 204);
}

#[tokio::test]
async fn on_loopback_only_a_direct_call_needs_no_token() {
    let served =
        Served::with(TestDatabase::sqlite(), |settings| settings.allowed_hosts = vec!["ops.internal".to_owned()]).await;
    assert_eq!(served.send(get("/v1/status")).await.status, 200);
    for sign in ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"] {
        served.send(get("/v1/status").header(sign, "127.0.0.1")).await.problem(401, "not_signed_in");
    }
    served.send(get("/v1/status").header("Host", "ops.internal")).await.problem(401, "not_signed_in");
    let wrong = get("/v1/status").header("Authorization", "Bearer nonsense");
    served.send(wrong).await.problem(401, "not_signed_in");
    let public = Served::with(TestDatabase::sqlite(), |settings| {
        settings.public_url = Some("https://redrive.example".parse().unwrap());
    })
    .await;
    public.send(get("/v1/status")).await.problem(401, "not_signed_in");
}

#[tokio::test]
async fn the_last_use_of_a_token_is_kept_to_the_minute() {
    let served = Served::abroad(TestDatabase::sqlite(), |_| {}).await;
    let token = served.token(Role::Viewer).await;
    served.store.clock.advance(Duration::from_secs(90));
    assert_eq!(served.send(get("/v1/status").header("Authorization", &format!("Bearer {token}"))).await.status, 200);
    redrive_fixture::eventually("the use is kept", async || {
        let tokens = served.store.store.view().tokens().await.unwrap();
        tokens[0].last_used_at.is_some_and(|at| at.since(redrive_fixture::START) == Duration::from_secs(60))
    })
    .await;
}
