//! Jobs that a program or a server lists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::run::{State, Workload as Kind};
use redrive_data::process::{
    CommandSettings, Discover, DiscoverPace, Discovered, Discovery, PostSettings, Section, Sections, Unserved,
};
use redrive_data::settings::Surroundings;
use redrive_data::worker::Shutdown;
use redrive_store::clock::SystemClock;
use redrive_store::{NewRun, RunPage};

use crate::house::TestDataPlane;
use crate::scripted::{Reply, Server};
use crate::told::{Act, Told, section};

const PACE: DiscoverPace = DiscoverPace { interval: Duration::from_millis(1), timeout: Duration::from_secs(60) };

fn listed_by(house: &TestDataPlane, script: &str, categories: &[&str]) -> Discovery {
    let words = ["/bin/sh", "-c", script].map(str::to_owned);
    let settings = CommandSettings { command: &words, directory: Some(house.database.path()), env: &BTreeMap::new() };
    let discover = Discover::command(&settings, PACE, &Surroundings::default()).unwrap();
    discovery(house, discover, categories)
}

fn discovery(house: &TestDataPlane, discover: Discover, categories: &[&str]) -> Discovery {
    let section = Section {
        categories: categories.iter().map(|&category| category.to_owned()).collect(),
        discover: Some(Arc::new(discover)),
        ..section("s", Told::to(|_| Act::Pass))
    };
    Discovery::new(house.store.data(), &Arc::new(section)).unwrap()
}

async fn jobs(house: &TestDataPlane) -> usize {
    let page = RunPage { workload: Some(Kind::Process), limit: 100_000, ..RunPage::default() };
    house.store.view().runs(page).await.unwrap().len()
}

async fn what_is_listed_again_is_known(house: TestDataPlane) {
    let script = r#"
        echo '{"external_id":"a","payload":{"n":1},"submitted_at":"2026-01-02T03:04:05Z"}'
        echo; printf '{"external_id":"b","category":"x","not_before":"2999-01-01T00:00:00Z","max_attempts":2}'
    "#;
    let discovery = listed_by(&house, script, &["x"]);
    let both = Discovered { new: 2, ..Discovered::default() };
    assert_eq!(discovery.ask().await.unwrap(), both);
    // Several workers may ask at once.
    let (first, second) = tokio::join!(discovery.ask(), discovery.ask());
    let known = Discovered { known: 2, ..Discovered::default() };
    assert_eq!((first.unwrap(), second.unwrap()), (known.clone(), known));
    let page = RunPage { workload: Some(Kind::Process), limit: 10, ..RunPage::default() };
    let mut runs = house.store.view().runs(page).await.unwrap();
    runs.sort_by_key(|run| run.submitted_at);
    assert_eq!(runs[0].work.external_id(), Some("a"), "it was submitted years ago");
    assert_eq!(runs[0].submitted_at.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!((runs.len(), runs[1].work.category()), (2, "x"));
    assert_eq!((runs[1].state, runs[1].max_attempts), (State::Waiting, Some(2)), "not before its time");
}

async fn a_line_that_is_no_job_is_skipped_and_said(house: TestDataPlane) {
    let script = r#"
        echo '{"external_id":"a"}'
        echo 'nonsense'
        echo '{"payload":1}'
        echo '{"external_id":"b","category":"other"}'
        echo '{"external_id":"c","colour":"red"}'
        echo '{"external_id":"d","submitted_at":"yesterday"}'
        echo '{"external_id":"e","max_attempts":0}'
        printf '{"external_id":"f","payload":"'; head -c 1048577 /dev/zero | tr '\\0' x; echo '"}'
        echo '{"external_id":"g","max_attempts":3.0}'
    "#;
    let found = listed_by(&house, script, &["x"]).ask().await.unwrap();
    assert_eq!((found.new, found.skipped), (2, 7));
    assert!(found.first_skipped.unwrap().starts_with("line 2: it is no job: "));
    let several = listed_by(&house, "echo '{\"external_id\":\"z\"}'", &["x", "y"]).ask().await.unwrap();
    let why = "line 1: it has no category, and process.s has several";
    assert_eq!((several.skipped, several.first_skipped.as_deref()), (1, Some(why)));
}

/// What was listed before the failure is there; the failure is told by its class and its last words.
async fn a_listing_that_fails_has_said_what_it_has_said(house: TestDataPlane) {
    let discovery = listed_by(&house, "echo '{\"external_id\":\"a\"}'; echo no more >&2; exit 75", &["x"]);
    let failure = discovery.ask().await.unwrap_err();
    assert!(failure.message.contains("exit code 75") && failure.message.contains("no more"), "{failure}");
    assert_eq!(jobs(&house).await, 1);
}

/// A line of any length costs itself only, and no memory.
async fn a_line_that_is_too_long_is_skipped_and_those_after_it_are_not(house: TestDataPlane) {
    let long = "echo '{\"external_id\":\"b\"}'; head -c 3000000 /dev/zero | tr '\\0' x; echo
        echo '{\"external_id\":\"c\"}'; head -c 3000000 /dev/zero | tr '\\0' x";
    let found = listed_by(&house, long, &["x"]).ask().await.unwrap();
    let why = "line 2: it is longer than a job with a payload of 1 MiB can be";
    assert_eq!((found.new, found.skipped, found.first_skipped.as_deref()), (2, 2, Some(why)));
    assert_eq!(jobs(&house).await, 2);
}

/// One that fails is asked again, until it is told to stop.
async fn a_discover_that_fails_is_asked_again(house: TestDataPlane) {
    let script = "echo x >> tries; test $(wc -l < tries) -ge 3 || exit 75; echo '{\"external_id\":\"a\"}'";
    let (shutdown, mut wakeups) = (Shutdown::default(), house.store.wakeups());
    let discovering = tokio::spawn(listed_by(&house, script, &["x"]).run(shutdown.clone()));
    let submitted = async {
        while jobs(&house).await == 0 {
            wakeups.changed().await.unwrap()
        }
    };
    tokio::time::timeout(Duration::from_secs(60), submitted).await.unwrap();
    shutdown.request();
    discovering.await.unwrap();
    let tries = std::fs::read_to_string(house.database.path().join("tries")).unwrap();
    assert!(tries.lines().count() >= 3, "{tries}");
}

/// A listing that hangs is given up, and its program with it. What it has listed is submitted all the same.
async fn a_discover_has_a_time_limit(house: TestDataPlane) {
    let words = ["/bin/sh", "-c", "echo '{\"external_id\":\"a\"}'; sleep 1000"].map(str::to_owned);
    let settings = CommandSettings { command: &words, directory: Some(house.database.path()), env: &BTreeMap::new() };
    let pace = DiscoverPace { timeout: Duration::from_millis(200), ..PACE };
    let discover = Discover::command(&settings, pace, &Surroundings::default()).unwrap();
    assert!(!discovery(&house, discover, &["x"]).look_once(Shutdown::default()).await);
    assert_eq!(jobs(&house).await, 1);
}

/// Also by a worker that has no section at all, and also what has only come due.
async fn categories_that_wait_for_a_section_are_said_whether_queued_or_due(house: TestDataPlane) {
    house.submit_jobs("queued", 2).await;
    let later = house.store.now().saturating_add(Duration::from_millis(1));
    let due = NewRun { not_before: Some(later), ..NewRun::job("due", None, house.store.now()) };
    house.store.control().submit(vec![due]).await.unwrap();
    let mut unserved = Unserved::new(house.store.view(), Sections::default());
    while house.store.now() <= later {
        tokio::task::yield_now().await;
    }
    let expected = Some(vec!["due".to_owned(), "queued".to_owned()]);
    assert_eq!((unserved.look().await.unwrap(), unserved.look().await.unwrap()), (expected, None));
}

async fn a_server_may_list_them_too_in_any_pieces(house: TestDataPlane) {
    let lines: String = (0..3000).map(|nth| format!("{{\"external_id\":\"{nth}\",\"payload\":[{nth}]}}\n")).collect();
    let server = Server::start(move |_| {
        let (first, second) = lines.as_bytes().split_at(lines.len() / 3);
        Reply::ok(first).then(second)
    });
    let settings = PostSettings {
        url: &server.url("/new"),
        headers: &BTreeMap::new(),
        idle_timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(10),
        redirects: false,
        allow_private: true,
        ca_file: None,
    };
    let discover = Discover::url(&settings, PACE, &Surroundings::default(), Arc::new(SystemClock)).unwrap();
    let found = discovery(&house, discover, &["x"]).ask().await.unwrap();
    assert_eq!((found.new, found.skipped), (3000, 0));
    assert_eq!((server.requests()[0].method.as_str(), jobs(&house).await), ("GET", 3000));
}

redrive_fixture::on_both_databases!(
    what_is_listed_again_is_known,
    a_line_that_is_no_job_is_skipped_and_said,
    a_listing_that_fails_has_said_what_it_has_said,
    a_line_that_is_too_long_is_skipped_and_those_after_it_are_not,
    a_discover_that_fails_is_asked_again,
    a_discover_has_a_time_limit,
    categories_that_wait_for_a_section_are_said_whether_queued_or_due,
    a_server_may_list_them_too_in_any_pieces,
);
