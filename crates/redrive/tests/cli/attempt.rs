//! What an attempt that failed brought and said, found again by the beginning of its id.

use crate::home::Home;

const SETTINGS: &str = r#"
[sources.ads.extract]
kind = "command"
command = ["/bin/sh", "-c", "echo '{\"n\":1}'; for n in 1 2 3 4 5; do echo line $n: $KEY >&2; done; exit 65"]
env = { KEY = { file = "key" } }
"#;

#[test]
fn all_that_was_kept_of_stderr_is_shown() {
    let home = Home::with_config(SETTINGS);
    home.write("key", "s3cr3t-k3y");
    home.run(&["migrate"]).done();
    let redrive = |arguments: &str| home.run(&arguments.split(' ').collect::<Vec<_>>());
    let key = "--source ads --customer-id c --query-name q";
    redrive(&format!("state backfill enqueue {key} --since 2026-01-01 --until 2026-01-01 --yes")).done();
    redrive("worker --drain").done();
    let inspected = redrive("state inspect --source ads --history -o json").done().json();
    let run = inspected["partitions"][0]["history"][0]["run_id"].as_str().unwrap().to_owned();
    let told = redrive(&format!("data cat {key} --logical-date 2026-01-01 --run {}", &run[..23])).done();
    assert_eq!(told.stdout, "{\"n\":1}\n");
    assert!(told.stderr.contains("rejected, final: /bin/sh ended with exit code 65"), "{told}");
    let told = redrive(&format!("data cat --run {run} --stderr")).done();
    assert_eq!(told.stdout.lines().collect::<Vec<_>>(), (1..6).map(|n| format!("line {n}: ***")).collect::<Vec<_>>());
    let shown = redrive(&format!("runs show {run} -o json")).done().json();
    assert!(shown["error_traceback"].as_str().unwrap().contains("line 1: ***"), "{shown}");
    assert!(shown["metrics"]["manifest_sha256"].as_str().unwrap().len() == 64, "{shown}");
}
