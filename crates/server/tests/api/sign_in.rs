//! Browsers: signing in and out, how long that lasts, how often it may be tried, and who may make a browser send what.

use std::time::Duration;

use redrive_core::role::Role;
use redrive_fixture::{TestDatabase, on_both_databases};

use crate::client::{Call, Reply, get, post};
use crate::served::Served;

fn form(path: &str, body: &str) -> Call {
    let call = Call { body: body.as_bytes().to_vec(), ..post(path) };
    call.header("Content-Type", "application/x-www-form-urlencoded")
}

/// The cookie that an answer sets, as a browser sends it back.
fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {}", reply.text()));
    set.split(';').next().unwrap().to_owned()
}

async fn sign_in(served: &Served, token: &str) -> String {
    let reply = served.send(form("/login", &format!("token={token}"))).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")), "{}", reply.text());
    cookie(&reply)
}

async fn status(served: &Served, cookie: &str) -> u16 {
    served.send(get("/v1/status").header("Cookie", cookie)).await.status
}

async fn abroad(database: TestDatabase) -> Served {
    Served::abroad(database, |_| {}).await
}

struct Abroad(Served);

impl redrive_fixture::OnDatabase for Abroad {
    async fn on(database: TestDatabase) -> Self {
        Self(abroad(database).await)
    }
}

async fn a_token_becomes_a_session_that_ends(Abroad(served): Abroad) {
    let token = served.token(Role::Viewer).await;
    let reply = served.send(form("/login", &format!("token={token}"))).await;
    let set = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure"), "there is no https here: {set}");
    let first = cookie(&reply);
    assert_eq!(status(&served, &first).await, 200);
    assert_eq!(status(&served, &format!("other=1; {first}; more=2")).await, 200);
    let again = served.send(form("/login", &format!("token={token}")).header("Cookie", &first)).await;
    let second = cookie(&again);
    assert_ne!(first, second, "signing in makes a new session");
    assert_eq!(
        (status(&served, &first).await, status(&served, &second).await),
        (401, 200),
        "in the place of the old one"
    );
    let out = served.send(post("/logout").header("Cookie", &second)).await;
    assert_eq!((out.status, out.header("location")), (303, Some("/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(status(&served, &second).await, 401);
    let (one, two) = (sign_in(&served, &token).await, sign_in(&served, &token).await);
    served.send(post("/logout/everywhere").header("Cookie", &one)).await;
    assert_eq!((status(&served, &one).await, status(&served, &two).await), (401, 401));
}

async fn a_session_ends_with_its_token_and_with_time(Abroad(served): Abroad) {
    let token = served.token_named("short", Role::Viewer).await;
    let cookie = sign_in(&served, &token).await;
    served.store.clock.advance(Duration::from_secs(3601));
    assert_eq!(status(&served, &cookie).await, 401, "the token has expired");
    let token = served.token_named("long", Role::Viewer).await;
    let cookie = sign_in(&served, &token).await;
    served.app.access().revoke_token(&served.store.operation("revoke"), "long").await.unwrap();
    assert_eq!(status(&served, &cookie).await, 401, "the token was revoked");
}

on_both_databases!(a_token_becomes_a_session_that_ends, a_session_ends_with_its_token_and_with_time);

#[tokio::test]
async fn an_idle_session_ends_and_a_busy_one_after_a_week() {
    let served = abroad(TestDatabase::sqlite()).await;
    let secret = served.app.first_link().make(served.store.now()).unwrap();
    let sign_in = async || {
        let secret = served.app.first_link().make(served.store.now()).unwrap();
        cookie(&served.send(form("/login", &format!("token=&code={}", secret.reveal()))).await)
    };
    drop(secret);
    let idle = sign_in().await;
    served.store.clock.advance(Duration::from_secs(12 * 3600 - 1));
    assert_eq!(status(&served, &idle).await, 200);
    let idle = sign_in().await;
    served.store.clock.advance(Duration::from_secs(12 * 3600));
    assert_eq!(status(&served, &idle).await, 401);
    let busy = sign_in().await;
    for hour in 1..7 * 24 {
        served.store.clock.advance(Duration::from_secs(3600));
        assert_eq!(status(&served, &busy).await, 200, "after {hour} h");
        let seen = served.store.now();
        redrive_fixture::eventually("the use is kept", async || {
            let sessions = served.store.database.number("SELECT max(last_seen) FROM sessions");
            sessions >= seen.micros() - 60_000_000
        })
        .await;
    }
    served.store.clock.advance(Duration::from_secs(3600));
    assert_eq!(status(&served, &busy).await, 401);
}

#[tokio::test]
async fn the_first_link_signs_in_once() {
    let served = abroad(TestDatabase::sqlite()).await;
    let secret = served.app.first_link().make(served.store.now()).unwrap();
    let follow = || form("/login", &format!("code={}", secret.reveal()));
    let reply = served.send(follow()).await;
    assert_eq!(reply.status, 303);
    assert_eq!(status(&served, &cookie(&reply)).await, 200);
    assert_eq!(served.send(follow()).await.status, 401, "a second time it does not");
}

#[tokio::test]
async fn failures_to_sign_in_are_limited() {
    let served = abroad(TestDatabase::sqlite()).await;
    let token = served.token(Role::Viewer).await;
    for _ in 0..10 {
        let reply = served.send(form("/login", "token=rdr_admin_wrong")).await;
        assert_eq!(reply.status, 401);
        assert!(reply.text().contains("role=\"alert\"") && reply.header("set-cookie").is_none(), "{}", reply.text());
    }
    let limited = served.send(form("/login", &format!("token={token}"))).await;
    assert!(limited.header("retry-after").is_some());
    limited.problem(429, "too_many_requests");
    served.store.clock.advance(Duration::from_secs(61));
    sign_in(&served, &token).await;
}

#[tokio::test]
async fn over_https_the_cookie_belongs_to_this_host_alone() {
    let served = Served::abroad(TestDatabase::sqlite(), |settings| {
        settings.public_url = Some("https://redrive.example/redrive".parse().unwrap());
        settings.base_path = "/redrive".parse().unwrap();
    })
    .await;
    let token = served.token(Role::Viewer).await;
    let reply = served.send(form("/login", &format!("token={token}"))).await;
    let set = reply.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-redrive=") && set.contains("; Secure") && set.contains("Path=/;"), "{set}");
    assert_eq!(reply.header("location"), Some("/redrive/"));
}

/// The page works without a script, and nothing in it is inline.
#[tokio::test]
async fn the_page_has_nothing_inline() {
    let served = Served::abroad(TestDatabase::sqlite(), |settings| settings.base_path = "/x".parse().unwrap()).await;
    let page = served.send(get("/login")).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let text = page.text();
    assert!(text.contains("<html lang=\"en\">") && text.matches("<h1>").count() == 1, "{text}");
    assert!(text.contains("action=\"/x/login\"") && text.contains("src=\"/x/login.js\""), "{text}");
    assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onclick"), "{text}");
    let script = served.send(get("/login.js")).await;
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
}

/// A browser that another site's page makes send something is refused, whoever is signed in.
#[tokio::test]
async fn what_another_site_sends_is_refused() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let host = served.address.to_string();
    let hold = || post("/v1/holds").json(&serde_json::json!({"source": "ads", "customer_id": "1"}));
    for (headers, is_refused) in [
        (vec![("Sec-Fetch-Site", "cross-site")], true),
        (vec![("Sec-Fetch-Site", "same-site")], true),
        (vec![("Origin", "https://evil.example")], true),
        (vec![("Origin", "null")], true),
        (vec![("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")], true),
        (vec![("Sec-Fetch-Site", "same-origin")], false),
        (vec![("Sec-Fetch-Site", "none")], false),
        (vec![("Origin", &format!("http://{host}"))], false),
        (vec![], false),
    ] {
        let call = headers.iter().fold(hold(), |call, (name, value)| call.header(name, value));
        let reply = served.send(call).await;
        match is_refused {
            true => drop(reply.problem(403, "cross_site")),
            false => assert_eq!(reply.status, 201, "{headers:?}: {}", reply.text()),
        }
    }
    let login = form("/login", "token=x").header("Sec-Fetch-Site", "cross-site");
    served.send(login).await.problem(403, "cross_site");
    let read = served.send(get("/v1/status").header("Sec-Fetch-Site", "cross-site")).await;
    assert_eq!(read.status, 200, "reading changes nothing, and the browser keeps the answer from the page");
}
