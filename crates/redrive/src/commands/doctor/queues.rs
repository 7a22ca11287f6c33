//! Jobs that wait for a section which is not there.

use redrive_control::runs::Queues;
use redrive_store::View;

use super::{Finding, Findings};

const CHECK: &str = "jobs";

/// How many categories are named.
const NAMED: usize = 10;

pub async fn check(view: &View, queues: &Queues, findings: &mut Findings) {
    let waiting = match view.categories_waiting().await {
        Ok(waiting) => waiting,
        Err(error) => return findings.add(Finding::unusable(CHECK, error.to_string())),
    };
    let unserved: Vec<_> = waiting.iter().filter(|(category, _)| queues.of(category).is_none()).collect();
    if unserved.is_empty() {
        return;
    }
    let mut named: Vec<String> =
        unserved.iter().take(NAMED).map(|(category, count)| format!("{category:?} ({count} queued)")).collect();
    if unserved.len() > NAMED {
        named.push(format!("{} more", unserved.len() - NAMED));
    }
    // Another machine's configuration may serve them.
    let says = format!("no [process] section here serves {}; add them to the categories of one", named.join(", "));
    findings.add(Finding::note(CHECK, says));
}
