//! Extractions that are under way: each is about a partition, and the doctor names those whose lease has passed.

use redrive_store::{Running, View};

use super::findings::{Broken, Finding, Findings};

const CHECK: &str = "attempts";
const PAGE: u32 = 1000;

#[derive(Default)]
struct Seen {
    running: u64,
    overdue: u64,
    orphans: u64,
}

pub async fn check(view: &View, findings: &mut Findings) {
    let mut seen = Seen::default();
    let mut after = None;
    loop {
        let page = match view.running_attempts(after, PAGE).await {
            Ok(page) => page,
            Err(error) => return findings.add(Finding::unusable(CHECK, error.to_string())),
        };
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for running in page {
            seen.running += 1;
            seen.overdue += u64::from(running.attempt.is_overdue(view.now()));
            if !running.exists {
                seen.orphans += 1;
                findings.name(orphan(&running));
            }
        }
    }
    let mut says = format!("{} under way", seen.running);
    if seen.overdue > 0 {
        says += &format!(", {} past their lease: a worker died, and the next worker ends them", seen.overdue);
    }
    findings.add(match seen.orphans {
        0 => Finding::good(CHECK, says),
        orphans => Finding::broken(CHECK, format!("{says}; {orphans} about partitions that do not exist")),
    });
}

fn orphan(Running { key, attempt, .. }: &Running) -> Broken {
    let run = attempt.run_id;
    let says = format!("run {run} is running for {key}, and there is no such partition");
    Broken { check: CHECK, key: None, run_id: Some(run), breach: "orphan", says }
}
