//! A proxy that says who calls is believed by its address, and by nothing else.

use std::collections::BTreeMap;

use redrive_core::role::Role;
use redrive_fixture::TestDatabase;
use redrive_server::ForwardAuth;

use crate::client::{Call, get, post};
use crate::served::Served;

async fn behind(proxies: &[&str], roles: &[(&str, Role)]) -> Served {
    let roles: BTreeMap<String, Role> = roles.iter().map(|(group, role)| ((*group).to_owned(), *role)).collect();
    Served::with(TestDatabase::sqlite(), |settings| {
        settings.forward_auth = Some(ForwardAuth {
            trusted_proxies: proxies.iter().map(|text| text.parse().unwrap()).collect(),
            user_header: "x-forwarded-user".parse().unwrap(),
            groups_header: Some("x-forwarded-groups".parse().unwrap()),
            roles,
        });
    })
    .await
}

fn as_user(call: Call, user: &str, groups: &str) -> Call {
    call.header("X-Forwarded-User", user).header("X-Forwarded-Groups", groups)
}

const ROLES: [(&str, Role); 2] = [("staff", Role::Viewer), ("ops", Role::Operator)];

#[tokio::test]
async fn a_trusted_proxy_says_who_calls_and_with_which_role() {
    let served = behind(&["127.0.0.0/8"], &ROLES).await;
    let hold = || post("/v1/holds").json(&serde_json::json!({"source": "ads", "customer_id": "1"}));
    assert_eq!(served.send(as_user(get("/v1/status"), "ann", "staff")).await.status, 200);
    served.send(as_user(hold(), "ann", "staff")).await.problem(403, "forbidden");
    let held = served.send(as_user(hold(), "bob", "staff, ops")).await.done(201);
    assert_eq!(held["by"], "user:bob", "the strongest of the groups counts");
    served.send(as_user(get("/v1/status"), "eve", "guests")).await.problem(403, "forbidden");
    served.send(get("/v1/status").header("X-Forwarded-User", "eve")).await.problem(403, "forbidden");
    // Who comes without the header is nobody, also from this machine.
    served.send(get("/v1/status")).await.problem(401, "not_signed_in");
}

#[tokio::test]
async fn nobody_else_is_believed() {
    let served = behind(&["192.0.2.1"], &[("*", Role::Admin)]).await;
    let token = served.token(Role::Viewer).await;
    let spoofs = [
        vec![("X-Forwarded-User", "admin")],
        vec![("x-forwarded-USER", "admin"), ("X-Forwarded-For", "192.0.2.1")],
        vec![("X-Forwarded-User", "admin"), ("Forwarded", "for=192.0.2.1")],
        vec![("X-Forwarded-User", "admin"), ("X-Real-IP", "192.0.2.1")],
        vec![("X-Forwarded-Groups", "ops")],
        vec![("X-Forwarded-User", "")],
    ];
    for spoof in spoofs {
        let call = spoof.iter().fold(get("/v1/status"), |call, (name, value)| call.header(name, value));
        served.send(call.clone()).await.problem(403, "forbidden");
        // Nor is the header passed over where a token would do.
        let with_token = call.header("Authorization", &format!("Bearer {token}"));
        served.send(with_token).await.problem(403, "forbidden");
    }
    served.send(get("/v1/status").header("X-Forwarded-For", "192.0.2.1")).await.problem(401, "not_signed_in");
    let token = get("/v1/status").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(served.send(token).await.status, 200);
}

#[tokio::test]
async fn a_header_that_is_given_twice_says_nothing() {
    let served = behind(&["127.0.0.1"], &[("*", Role::Viewer)]).await;
    let one = get("/v1/status").header("X-Forwarded-User", "ann");
    assert_eq!(served.send(one.clone()).await.status, 200);
    served.send(one.header("X-Forwarded-User", "root")).await.problem(403, "forbidden");
}
