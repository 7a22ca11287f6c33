//! Attempts and their programs: an attempt is over when its own programs are, and not before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_data::extract::{Extractor, ExtractorContext, Settings};
use redrive_data::settings::{Surroundings, Variables};
use redrive_data::worker::WorkerCounts;
use redrive_store::clock::SystemClock;
use tokio::time::timeout;

use crate::house::{TestDataPlane, Work, key, keys};

/// A program of the kind that `settings` names, which runs a shell script in the directory.
fn program(kind: &str, directory: &Path, script: &str, more: &str) -> Arc<dyn Extractor> {
    let directory = directory.display();
    let settings = format!("[{kind}]\ncommand = ['/bin/sh', '-c', '''{script}''']\ndirectory = '{directory}'\n{more}");
    let settings: Settings = settings.parse::<toml::Table>().unwrap().try_into().unwrap();
    let variables = Variables::new(|name| (name == "TOKEN").then(|| "s3cr3t-t0ken".to_owned()));
    let context = ExtractorContext { around: Surroundings::with(variables), clock: Arc::new(SystemClock) };
    settings.build(&context).unwrap()
}

async fn work(house: &TestDataPlane, work: Work) -> WorkerCounts {
    let worker = house.worker(work).await.0;
    timeout(Duration::from_secs(60), worker.run()).await.expect("it ends").unwrap()
}

/// Names in the file `beside` whoever was there when another was started, and does not heed a polite end.
const ALONE: &str = "for pid in $(cat pids); do kill -0 $pid && echo $pid >>beside; done\n\
                     echo $$ >>pids; trap \"\" TERM PIPE\n";

async fn runs_alone(house: &TestDataPlane, extractor: Arc<dyn Extractor>, message: &str) {
    house.want(&keys("c", 2)).await;
    let tally = work(house, Work { max_in_flight: Some(1), ..Work::with(extractor) }).await;
    assert_eq!((tally.claimed, tally.rejected), (2, 2));
    let said = house.partition(&key("c", 0)).await.state.error_message.unwrap();
    assert!(said.contains(message), "{said}");
    let pids = std::fs::read_to_string(house.database.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    assert!(!house.database.path().join("beside").exists(), "two ran at once");
    for pid in pids.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} has outlived its worker");
    }
}

async fn a_program_with_an_overlong_line_is_waited_for(house: TestDataPlane) {
    let script = format!("{ALONE} head -c 17000000 /dev/zero; exec sleep 1000");
    runs_alone(&house, program("command", house.database.path(), &script, ""), "longer than 4 MiB").await;
}

async fn a_tap_with_a_bad_line_is_waited_for(house: TestDataPlane) {
    std::fs::write(house.database.path().join("catalog.json"), r#"{"streams":[{"stream":"q","schema":{}}]}"#).unwrap();
    let script = format!("{ALONE} echo nonsense; exec sleep 1000");
    let catalog = format!("config = {{}}\ncatalog_file = '{}'", house.database.path().join("catalog.json").display());
    runs_alone(&house, program("singer", house.database.path(), &script, &catalog), "line 1").await;
}

/// Both are told to end at the same moment; the one whose program does so at once does not wait for the other's.
async fn a_time_out_waits_for_its_own_program_and_for_no_other(house: TestDataPlane) {
    house.want(&[key("meek", 0), key("stubborn", 0)]).await;
    let script = "test $REDRIVE_CUSTOMER_ID = meek || trap \"\" TERM PIPE; sleep 1000";
    let extractor = program("command", house.database.path(), script, "");
    let tally = work(&house, Work { timeout: Duration::from_millis(500), ..Work::with(extractor) }).await;
    assert_eq!(tally.rejected, 2);
    let ended = async |customer| house.attempts(&key(customer, 0)).await.remove(0).completed_at.unwrap();
    let longer = ended("stubborn").await.since(ended("meek").await);
    assert!(longer > Duration::from_secs(1), "the stubborn one took {longer:?} longer");
}

/// A time-out says what the program had said, as every other failure does, and none of its secrets.
async fn a_time_out_says_what_the_program_said_last(house: TestDataPlane) {
    house.want(&[key("c", 0)]).await;
    let script = "echo first >&2; echo waiting for the report with $TOKEN >&2; exec sleep 1000";
    let extractor = program("command", house.database.path(), script, "env = { TOKEN = { env = 'TOKEN' } }");
    work(&house, Work { timeout: Duration::from_millis(500), ..Work::with(extractor) }).await;
    let said = house.partition(&key("c", 0)).await.state.error_message.unwrap();
    assert_eq!(said, "timed out after 0.5 s: first | waiting for the report with ***");
}

redrive_fixture::on_both_databases!(
    current_thread:
    a_time_out_says_what_the_program_said_last,
    a_program_with_an_overlong_line_is_waited_for,
    a_tap_with_a_bad_line_is_waited_for,
    a_time_out_waits_for_its_own_program_and_for_no_other,
);
