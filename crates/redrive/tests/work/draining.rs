//! A worker that drains: what it serves, and what it says at its end.

use crate::home::{TestProgram, Told};
use crate::rig::TestProcesses;

const THREE: &str = r#"
[sources.ads.extract]
kind = "command"
command = ["echo", "{}"]
[sources.crm.extract]
kind = "command"
command = ["echo", "{}"]
[sources.web.extract]
kind = "command"
command = ["echo", "{}"]
env = { TOKEN = { env = "NOT_SET_HERE" } }
"#;

/// A worker of some sources takes nothing of the others, and needs nothing of what they need.
fn a_worker_of_some_sources_leaves_the_others(subject: TestProgram) {
    let rig = TestProcesses::new(subject, THREE);
    for source in ["ads", "crm", "web"] {
        rig.want(source, "1", "q", "2026-01-03");
    }
    rig.redrive("worker --drain --source ads --source crm").done();
    let done = |source: &str| {
        rig.number(&format!(
            "SELECT count(*) FROM partitions p JOIN series s ON s.series_id = p.series_id \
             WHERE p.status = 'success' AND s.source = '{source}'"
        ))
    };
    assert_eq!((done("ads"), done("crm"), done("web")), (3, 3, 0));
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 6);
    let refused = rig.redrive("worker --drain --source ads --source crn").complaint(2);
    assert!(refused.contains("no [sources.crn]; known: ads, crm, web"), "{refused}");
    let refused = rig.redrive("worker --drain --source ads --workload ingest").complaint(2);
    assert!(refused.contains("--workload leaves extract out"), "{refused}");
}

const FAILING: &str = r#"
[sources.ads.extract]
kind = "command"
command = ["sh", "-c", "echo 'account '$REDRIVE_CUSTOMER_ID' is closed' >&2; exit 65"]
[sources.ads.breaker]
after = 0
[sources.crm.extract]
kind = "command"
command = ["sh", "-c", "echo 'no answer' >&2; exit 75"]
[sources.crm.breaker]
after = 0
"#;

/// The end of a drain names the causes of what failed, the most frequent first, and what to type.
fn a_drain_ends_with_the_causes_of_what_failed(subject: TestProgram) {
    let rig = TestProcesses::new(subject, FAILING);
    for customer in ["101", "102"] {
        rig.want("ads", customer, "q", "2026-01-03");
    }
    rig.want("crm", "1", "q", "2026-01-02");
    let told = rig.redrive("worker --drain").done();
    let said: Vec<&str> = told.stderr.lines().skip_while(|line| *line != "failed now, by cause:").collect();
    assert_eq!(said.len(), 4, "{told}");
    assert!(said[1].contains("6  final  ") && said[1].contains("is closed"), "{told}");
    assert!(said[2].contains("2  retryable  ") && said[2].contains("no answer"), "{told}");
    let next = said[3].strip_prefix("next: ").unwrap().replace(" --reason '…'", " --dry-run -o json");
    let found = rig.redrive(next.strip_prefix("redrive ").unwrap()).done().json();
    assert_eq!(found["changed"].as_array().unwrap().len(), 6, "{found}");
    rig.want("ads", "103", "q", "2026-01-01");
    let quiet = rig.redrive("worker --drain -q").done();
    assert!(!quiet.stderr.contains("failed now"), "{quiet}");
}

/// What is left because its source cannot be used is told, and the exit code says that not all was done.
fn a_drain_says_what_it_left_and_why(subject: TestProgram) {
    let rig = TestProcesses::new(subject, THREE);
    for source in ["ads", "web"] {
        rig.want(source, "1", "q", "2026-01-03");
    }
    let told = rig.redrive("worker --drain");
    assert_eq!(told.code, 1, "{told}");
    assert!(
        told.stdout.contains("3 accepted") && told.stdout.contains("; 3 left, whose source cannot be used"),
        "{told}"
    );
    let left = told.stderr.lines().find(|line| line.starts_with("left: ")).unwrap();
    assert!(
        left.starts_with("left: 3 partitions of web, source_unusable: ") && left.contains("NOT_SET_HERE"),
        "{left}"
    );
    let told = rig.redrive("worker --drain -o json");
    assert_eq!((told.code, &told.json()["left"]), (1, &3.into()), "{told}");
    // Nobody asked for the one that cannot be used.
    assert_eq!(rig.redrive("worker --drain --source ads -o json").done().json()["left"], 0);
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 3, "no attempt was burnt");
}

const JOBS: &str = r#"
[process.broken]
categories = ["broken"]
command = ["sh", "-c", "echo 'no such replay' >&2; exit 65"]
[process.slow]
categories = ["slow"]
command = ["sh", "-c", "echo 'no answer' >&2; exit 75"]
"#;

/// Jobs have causes as partitions have, and a command of their own.
fn a_drain_ends_with_the_causes_of_jobs_that_failed(subject: TestProgram) {
    let rig = TestProcesses::new(subject, JOBS);
    let causes = |told: &Told| -> Vec<String> {
        let said = told.stderr.lines().skip_while(|line| *line != "failed now, by cause:");
        said.map(str::to_owned).collect()
    };
    rig.redrive("runs submit --category slow -q").done();
    let told = rig.redrive("worker --drain").done();
    let said = causes(&told);
    assert_eq!(said.len(), 3, "{told}");
    assert!(said[1].contains("1  retryable  slow: ") && said[1].contains("no answer"), "{told}");
    assert!(said[2].contains("redrive runs list --group ") && said[2].contains("tried again by themselves"), "{told}");
    for nth in 0..3 {
        rig.redrive(&format!("runs submit --category broken --external-id {nth} -q")).done();
    }
    let told = rig.redrive("worker --drain --category broken").done();
    let said = causes(&told);
    assert!(said[1].contains("3  final  broken: ") && said[1].contains("no such replay"), "{told}");
    let next =
        said.last().unwrap().strip_prefix("next: redrive ").unwrap().replace(" --reason '…'", " --dry-run -o json");
    assert!(next.starts_with("runs retry --group "), "{told}");
    let found = rig.redrive(&next).done().json();
    assert_eq!(found["changed"].as_array().unwrap().len(), 3, "{found}");
}

redrive_fixture::on_both!(
    a_drain_says_what_it_left_and_why,
    a_drain_ends_with_the_causes_of_jobs_that_failed,
    a_drain_ends_with_the_causes_of_what_failed,
    a_worker_of_some_sources_leaves_the_others,
);
