//! Jobs that a server handles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{Run, State, Verdict};
use redrive_data::process::{Handler, Post, PostSettings};
use redrive_data::settings::{Surroundings, ValueRef, Variables};
use redrive_store::clock::SystemClock;
use serde_json::Value;

use crate::house::TestDataPlane;
use crate::scripted::{Reply, Server};
use crate::told::{section, work};
/// Makes the answer to a request.
type Answer = fn() -> Reply;

fn post(url: &str, allow_private: bool) -> Arc<dyn Handler> {
    let headers: BTreeMap<String, ValueRef> =
        toml::from_str("Authorization = { env = 'TOKEN', prefix = 'Bearer ' }\nX-Job = '{external_id}{category}'")
            .unwrap();
    let settings = PostSettings {
        url,
        headers: &headers,
        idle_timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(10),
        redirects: false,
        allow_private,
        ca_file: None,
    };
    let variables = Variables::new(|name| (name == "TOKEN").then(|| "s3cr3t-t0ken".to_owned()));
    Arc::new(Post::new(&settings, &Surroundings::with(variables), Arc::new(SystemClock)).unwrap())
}

async fn handled(house: &TestDataPlane, server: &Server) -> Run {
    let id = house.submit_jobs("a", 1).await[0];
    house.drain_jobs(vec![section("a", post(&server.url("/jobs?x=1"), true))]).await;
    house.run(id).await
}

async fn the_job_is_posted_and_the_body_holds_the_verdict(house: TestDataPlane) {
    let server = Server::start(|_| Reply::ok(r#"{"verdict":"failed","metrics":{"frames":7}}"#));
    let run = handled(&house, &server).await;
    assert_eq!((run.state, run.verdict), (State::Done, Some(Verdict::Failed)));
    assert!(run.metrics.unwrap().contains("\"frames\":7"));
    let asked = server.requests().remove(0);
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/jobs?x=1"));
    assert_eq!(asked.headers["authorization"], "Bearer s3cr3t-t0ken");
    assert_eq!((&*asked.headers["x-job"], &*asked.headers["content-type"]), ("a", "application/json"));
    let job: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!((&job["run_id"], &job["payload"]), (&run.run_id.to_string().into(), &0.into()));
}

async fn statuses_mean_what_they_mean_everywhere(house: TestDataPlane) {
    use ErrorClass::{Final, RateLimited, Retryable};
    let cases: [(Answer, ErrorClass, Option<u64>); 9] = [
        (|| Reply::new(429, "slow").header("Retry-After", "30"), RateLimited, Some(30)),
        (|| Reply::new(429, "slow"), RateLimited, Some(60)),
        (|| Reply::new(503, "").header("Retry-After", "30"), RateLimited, Some(30)),
        (|| Reply::new(503, ""), Retryable, Some(60)),
        (|| Reply::new(408, ""), Retryable, Some(60)),
        (|| Reply::new(425, ""), Retryable, Some(60)),
        (|| Reply::new(500, "s3cr3t-t0ken is bad"), Retryable, Some(60)),
        (|| Reply::new(404, "no such place"), Final, None),
        (|| Reply::silence(), Retryable, Some(60)),
    ];
    house.clock.hold();
    for (nth, (reply, class, delay)) in cases.into_iter().enumerate() {
        let server = Server::start(move |_| reply());
        let run = handled(&house, &server).await;
        assert_eq!(run.error_class, Some(class), "{nth}");
        let waits = run.next_retry_at.map(|at| at.since(house.store.now()).as_secs());
        assert_eq!(waits, delay, "{nth}");
        assert!(!run.error_message.unwrap().contains("s3cr3t"), "{nth}");
    }
}

async fn a_success_without_a_verdict_is_a_retryable_failure(house: TestDataPlane) {
    let cases: [(Answer, &str); 5] = [
        (|| Reply::ok(""), "answered 200 OK, but the body is empty, and no verdict"),
        (|| Reply::new(204, ""), "answered 204 No Content, but the body is empty, and no verdict"),
        (|| Reply::ok("{\"verdict\":\"fine\"}"), "verdict \"fine\" is unknown"),
        (|| Reply::ok(vec![b' '; 2 << 20]), "no verdict"),
        (|| Reply::ok("{\"verdict\":").then("").cut(), "its body cannot be read"),
    ];
    for (reply, said) in cases {
        let server = Server::start(move |_| reply());
        let run = handled(&house, &server).await;
        assert_eq!((run.error_class, run.state), (Some(ErrorClass::Retryable), State::Waiting), "{said}");
        let message = run.error_message.unwrap();
        assert!(message.contains(said), "{message}");
    }
}

/// Our own settings forbid it, so no job is to blame.
async fn a_private_address_costs_no_attempt(house: TestDataPlane) {
    let server = Server::start(|_| Reply::ok(r#"{"verdict":"passed"}"#));
    let id = house.submit_jobs("a", 1).await[0];
    let sections = vec![section("a", post(&server.url("/"), false))];
    let error = house.serve(sections, work()).await.0.run().await.unwrap_err().to_string();
    assert!(error.contains("[process.a]") && error.contains("allow_private = true"), "{error}");
    let run = house.run(id).await;
    assert_eq!((run.state, run.attempt, run.error_class), (State::Queued, 0, None));
    assert!(server.requests().is_empty());
}

redrive_fixture::on_both_databases!(
    the_job_is_posted_and_the_body_holds_the_verdict,
    statuses_mean_what_they_mean_everywhere,
    a_success_without_a_verdict_is_a_retryable_failure,
    a_private_address_costs_no_attempt,
);
