//! A worker that drains: what it serves, and what it says at its end.

use crate::home::TestProgram;
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

redrive_fixture::on_both!(a_worker_of_some_sources_leaves_the_others);
