//! SV-2: workers in other languages over HTTP: claim, beat, report, with a connection that is cut wherever it hurts.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::run::{Incident, State, Verdict};
use redrive_store::NewRun;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Call, Reply, get, post};
use crate::served::Served;

fn claim(id: &str, max: u32) -> Call {
    post("/v1/worker/claim").json(&json!({"worker": "py", "claim_id": id, "max": max}))
}

fn report(run: &Value, what: &str, more: Value) -> Call {
    let mut body = more;
    body["task_id"] = run["task_id"].clone();
    post(&format!("/v1/worker/runs/{}/{what}", run["id"].as_str().unwrap())).json(&body)
}

/// The walk through the protocol, with each answer's shape.
async fn a_worker_claims_beats_and_reports(served: Served) {
    assert_eq!(served.send(claim("c0", 1)).await.status, 204);
    served.store.submit(&["any%", "any%"]).await;
    served.store.clock.advance(Duration::from_secs(2));
    let answer = served.send(claim("c1", 2)).await.done(200);
    let runs = answer["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &answer["drain"]), (2, &json!(false)));
    assert_eq!(
        (&runs[0]["lease_ms"], &runs[0]["beat_ms"], &runs[0]["deadline_ms"]),
        (&json!(15_000), &json!(5_000), &json!(1_800_000))
    );
    assert_eq!((&runs[0]["category"], &runs[0]["attempt"]), (&json!("any%"), &json!(1)));
    assert_eq!(served.send(claim("c1", 2)).await.done(200), answer, "the same claim gives the same runs");
    let held = json!({"worker": "py", "runs": [{"id": runs[0]["id"], "task_id": runs[0]["task_id"], "progress": 0.5}]});
    let beat = served.send(post("/v1/worker/heartbeat").json(&held)).await.done(200);
    assert_eq!(beat, json!({"runs": [{"id": runs[0]["id"], "say": "ok", "lease_ms": 120_000}], "drain": false}));
    let done = report(&runs[0], "complete", json!({"verdict": "passed", "metrics": {"frames": 7}}));
    let first = served.send(done.clone()).await.done(200);
    assert_eq!(served.send(done).await.done(200), first, "the same report gets the same answer");
    let failed = report(&runs[1], "fail", json!({"error_class": "retryable", "message": "boom"}));
    let next = served.send(failed).await.done(200);
    assert_eq!((&next["next"], &next["why"]), (&json!("retry"), &json!("retryable")));
    served.send(report(&runs[1], "complete", json!({"verdict": "passed"}))).await.problem(409, "lease_lost");
    served.send(report(&runs[0], "complete", json!({"verdict": "odd"}))).await.problem(422, "bad_body");
    let wrong = json!({"worker": "py", "claim_id": "c9", "categories": ["nobody's"]});
    served.send(post("/v1/worker/claim").json(&wrong)).await.problem(422, "unusable");
    let known = served.send(get("/v1/status")).await.done(200);
    let worker = known["processes"].as_array().unwrap().iter().find(|process| process["name"] == "py").unwrap().clone();
    assert_eq!((&worker["kind"], &worker["alive"]), (&json!("outside"), &json!(true)));
}

/// A long poll answers when there is work, and with drain when the server stops.
async fn a_long_poll_waits_for_work_and_for_the_end(mut served: Served) {
    let wait = post("/v1/worker/claim").json(&json!({"worker": "py", "claim_id": "c1", "wait_ms": 50_000}));
    let polling = tokio::spawn({
        let (address, wait) = (served.address, wait.clone());
        async move { wait.send(address).await }
    });
    served.store.submit(&["any%"]).await;
    assert_eq!(polling.await.unwrap().done(200)["runs"].as_array().unwrap().len(), 1);
    let address = served.address;
    let again = post("/v1/worker/claim").json(&json!({"worker": "py2", "claim_id": "c1", "wait_ms": 50_000}));
    let polling = tokio::spawn(async move { again.send(address).await });
    // The poll is under way once its worker is known again by it.
    let asked = || async {
        let processes = served.store.store.view().processes().await.unwrap();
        processes.iter().any(|process| process.name == "py2")
    };
    while !asked().await {
        tokio::task::yield_now().await;
    }
    served.stop().await;
    assert_eq!(polling.await.unwrap().done(200), json!({"runs": [], "drain": true}));
}

/// SV-2: an outside worker is told to drain until it may go on, and who told it so is kept.
async fn a_worker_is_told_to_drain_until_it_may_go_on(served: Served) {
    let drain = |name: &str, drain: bool| {
        let body = json!({"drain": drain, "reason": "its machine is replaced"});
        served.send(post(&format!("/v1/processes/{name}/drain")).json(&body))
    };
    drain("py", true).await.problem(404, "not_found");
    served.send(claim("c0", 1)).await;
    assert_eq!(drain("py", true).await.done(200), json!({"name": "py", "drain": true}));
    served.store.submit(&["any%"]).await;
    served.store.clock.advance(Duration::from_secs(2));
    for _ in 0..2 {
        assert_eq!(served.send(claim("c1", 1)).await.done(200), json!({"runs": [], "drain": true}));
        let beat = served.send(post("/v1/worker/heartbeat").json(&json!({"worker": "py"}))).await.done(200);
        assert_eq!(beat, json!({"runs": [], "drain": true}));
    }
    let processes = served.send(get("/v1/processes")).await.done(200);
    assert_eq!(processes["processes"][0]["drain"], true);
    drain("py", false).await.done(200);
    assert_eq!(served.send(claim("c2", 1)).await.done(200)["runs"].as_array().unwrap().len(), 1);
    let audit = served.send(get("/v1/audit")).await.done(200);
    let told = &audit["operations"][1];
    assert_eq!((&told["filters"]["worker"], &told["flags"]["drain"]), (&json!("py"), &json!(true)));
    assert_eq!(told["reason"], "its machine is replaced");
}

/// SV-2: a delivery that was lost, a result that came too late and a time-out are in the run's history.
async fn what_went_wrong_on_the_way_is_in_the_history(served: Served) {
    served.store.submit(&["any%"]).await;
    served.store.clock.advance(Duration::from_secs(2));
    let first = served.send(claim("c1", 1)).await.done(200)["runs"][0].clone();
    served.store.clock.advance(Duration::from_secs(15));
    served.app.rules().outside.sweep().await.unwrap();
    let id = first["id"].as_str().unwrap();
    let explained = served.send(get(&format!("/v1/runs/{id}/explain"))).await.done(200);
    assert!(explained["because"].as_str().unwrap().contains("did not answer in time"), "{explained}");
    served.send(report(&first, "complete", json!({"verdict": "passed"}))).await.problem(409, "lease_lost");
    let status = served.send(get("/v1/status")).await.done(200);
    let told = status["needs_attention"].to_string();
    assert!(told.contains("did not answer in time") && told.contains("came too late"), "{told}");
    let second = served.send(claim("c2", 1)).await.done(200)["runs"][0].clone();
    let beat = |progress: Value| {
        let held = json!({"id": second["id"], "task_id": second["task_id"], "progress": progress});
        served.send(post("/v1/worker/heartbeat").json(&json!({"worker": "py", "runs": [held]})))
    };
    beat(json!({"frames": 7})).await.done(200);
    let explained = served.send(get(&format!("/v1/runs/{id}/explain"))).await.done(200);
    assert!(explained["because"].as_str().unwrap().ends_with("{\"frames\":7}"), "{explained}");
    for _ in 0..17 {
        served.store.clock.advance(Duration::from_secs(100));
        assert_eq!(beat(json!(null)).await.done(200)["runs"][0]["say"], "ok");
    }
    served.store.clock.advance(Duration::from_secs(100));
    served.app.rules().outside.sweep().await.unwrap();
    let history = served.send(get(&format!("/v1/runs/{id}/history"))).await.done(200);
    let events: Vec<&str> =
        history["history"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["delivery_lost", "late", "failed"], "{history}");
    assert_eq!(history["history"][1]["said"]["verdict"], "passed");
    assert_eq!(history["history"][2]["error_message"], "timed out after 1800 s");
}

/// SV-2: what is claimed under a name is bounded, and a wait too.
async fn a_claim_has_its_bounds(served: Served) {
    let asked = |more: Value| {
        let mut body = json!({"worker": "py", "claim_id": "c1"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        served.send(post("/v1/worker/claim").json(&body))
    };
    for (more, pointer) in [
        (json!({"max": 0}), "/max"),
        (json!({"max": 1001}), "/max"),
        (json!({"wait_ms": 50_001}), "/wait_ms"),
        (json!({"worker": ""}), "/worker"),
        (json!({"claim_id": "a\nb"}), "/claim_id"),
    ] {
        let problem = asked(more).await.problem(422, "bad_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    asked(json!({"worker": "é".repeat(101)})).await.problem(422, "unusable");
    assert_eq!(asked(json!({"max": 1000})).await.status, 204);
}

/// How a call ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    /// Nothing is sent.
    Before,
    /// The connection is closed as soon as the question is sent.
    Within,
    /// The connection is closed as soon as the answer begins.
    After,
}

/// A small generator, so that every run of the test is the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn cut(&mut self) -> Cut {
        [Cut::Never, Cut::Before, Cut::Within, Cut::After][usize::try_from(self.roll(4)).unwrap()]
    }
}

/// Sends a call over a connection that may be cut.
async fn lossy(served: &Served, call: Call, cut: Cut) -> Option<Reply> {
    if cut == Cut::Before {
        return None;
    }
    if cut == Cut::Never {
        return Some(served.send(call).await);
    }
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        call.method,
        call.path,
        served.address,
        call.body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&call.body).await.unwrap();
    if cut == Cut::After {
        let _ = stream.read(&mut [0; 1]).await;
    }
    None
}

/// Sends a call again and again until it is answered, as a worker does.
async fn until_answered(served: &Served, call: &Call, dice: &mut Dice) -> Reply {
    for _ in 0..1000 {
        let cut = dice.cut();
        if let Some(reply) = lossy(served, call.clone(), cut).await {
            return reply;
        }
    }
    panic!("{} {} was cut a thousand times", call.method, call.path);
}

/// SV-2: one verdict a run, none stuck beyond the acknowledgement window, only executions burn attempts.
async fn cut_connections_lose_no_work_and_burn_no_attempt(served: Served) {
    cut_connections(served, 20, 7).await;
}

async fn cut_connections(served: Served, jobs: usize, seed: u64) {
    let new = (0..jobs).map(|_| NewRun::job("any%", None, served.store.now())).collect();
    let submitted = served.store.store.control().submit(new).await.unwrap();
    let mut dice = Dice(seed);
    let mut executed: BTreeMap<String, u32> = BTreeMap::new();
    let (mut done, mut nth, mut idle) = (0, 0, 0);
    while done < jobs {
        nth += 1;
        let asked = claim(&format!("c{nth}"), 3);
        // Now and then a worker dies before it hears of its claim; the next one asks under another name.
        let cut = dice.cut();
        let reply = match dice.roll(5) {
            0 => lossy(&served, asked, cut).await,
            _ => Some(until_answered(&served, &asked, &mut dice).await),
        };
        let Some(reply) = reply.filter(|reply| reply.status == 200) else {
            // Whatever is on its way to nobody is given back when its window is over, at the next look.
            idle += 1;
            assert!(idle < 1000, "something is stuck");
            served.store.clock.advance(Duration::from_secs(15));
            served.app.rules().outside.sweep().await.unwrap();
            continue;
        };
        idle = 0;
        for run in reply.json()["runs"].as_array().unwrap() {
            let id = run["id"].as_str().unwrap().to_owned();
            *executed.entry(id.clone()).or_default() += 1;
            let held = json!({"worker": "py", "runs": [{"id": id, "task_id": run["task_id"]}]});
            let beat = until_answered(&served, &post("/v1/worker/heartbeat").json(&held), &mut dice).await.done(200);
            assert_eq!(beat["runs"][0]["say"], "ok");
            let is_failing = run["attempt"] == 1 && dice.roll(3) == 0;
            let end = match is_failing {
                true => report(run, "fail", json!({"error_class": "retryable", "message": "boom"})),
                false => report(run, "complete", json!({"verdict": "passed"})),
            };
            until_answered(&served, &end, &mut dice).await.done(200);
            done += usize::from(!is_failing);
        }
    }
    let mut lost = 0;
    for run in submitted {
        let (id, now) = (run.run_id, served.store.run(run.run_id).await);
        assert_eq!((now.state, now.verdict), (State::Done, Some(Verdict::Passed)), "{id}");
        assert_eq!(now.attempt, executed[&id.to_string()], "only executions count: {id}");
        let incidents = served.store.store.view().run_incidents(id).await.unwrap();
        assert!(incidents.iter().all(|told| told.incident == Incident::DeliveryLost), "nothing came late");
        lost += incidents.len();
    }
    assert!(lost > 0, "no delivery was ever lost; the test shows nothing");
}

/// The examples do the work of a queue, and end when it is empty.
async fn the_examples_work(served: Served) {
    for (program, args) in [("python3", vec!["worker.py"]), ("sh", vec!["worker.sh"])] {
        let submitted = served.store.submit(&["any%", "100%"]).await;
        served.store.clock.advance(Duration::from_secs(2));
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let url = format!("http://{}", served.address);
        let mut command = Command::new(program);
        command.args(args).arg(url).arg("--once").current_dir(examples).stdin(Stdio::null());
        let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{program}: {said}");
        for id in submitted {
            verdict(&served, id, program).await;
        }
    }
}

async fn verdict(served: &Served, id: RunId, by: &str) {
    let run = served.store.run(id).await;
    assert_eq!((run.state, run.verdict, run.attempt), (State::Done, Some(Verdict::Passed), 1), "{by}");
}

redrive_fixture::on_both_databases!(
    a_worker_claims_beats_and_reports,
    a_long_poll_waits_for_work_and_for_the_end,
    a_worker_is_told_to_drain_until_it_may_go_on,
    what_went_wrong_on_the_way_is_in_the_history,
    a_claim_has_its_bounds,
    cut_connections_lose_no_work_and_burn_no_attempt,
    the_examples_work,
);

/// SV-2, a thousand times on each database. Run by ./chaos.
mod long {
    use redrive_fixture::{OnDatabase as _, TestDatabase};

    use super::{Served, cut_connections};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "takes minutes; ./chaos runs it"]
    async fn a_thousand_cut_connections_lose_no_work() {
        cut_connections(Served::on(TestDatabase::sqlite()).await, 1000, 1).await;
        cut_connections(Served::on(TestDatabase::postgres()).await, 1000, 2).await;
    }
}
