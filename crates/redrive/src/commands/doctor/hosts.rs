//! Whether the names of the machines that sources connect to are known here. A proxy looks the others up itself.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use redrive_core::key::Source;
use tokio::task::JoinSet;

use super::findings::{Finding, Findings};
use crate::config::Plan;

const CHECK: &str = "hosts";

/// How long an answer is waited for; all names are asked for at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many names are asked for.
const ASKED: usize = 100;

pub async fn check(plan: &Plan, findings: &mut Findings) {
    let mut asked = JoinSet::new();
    let hosts = plan.sources.hosts().into_iter().flat_map(|(source, mut hosts)| {
        hosts.sort();
        hosts.dedup();
        hosts.into_iter().map(move |host| (source.clone(), host))
    });
    for (source, host) in hosts.take(ASKED) {
        asked.spawn(look_up(source, host));
    }
    let mut unknown: Vec<String> = asked.join_all().await.into_iter().flatten().collect();
    unknown.sort();
    // It may well be known on the machines that have the workers, or a minute later.
    unknown.into_iter().for_each(|says| findings.add(Finding::note(CHECK, says)));
}

/// Says why a name leads nowhere; nothing where it does.
async fn look_up(source: Source, host: String) -> Option<String> {
    let todo = "correct it, or see that this machine can look it up";
    let asked = host.clone();
    let found =
        tokio::task::spawn_blocking(move || (asked.as_str(), 0).to_socket_addrs().map(|mut found| found.next()));
    let why = match tokio::time::timeout(PATIENCE, found).await {
        Ok(Ok(Ok(Some(_)))) => return None,
        Ok(Ok(Ok(None))) => "it has no address".to_owned(),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer came in {} s", PATIENCE.as_secs()),
    };
    Some(format!("{source} connects to {host}, which cannot be looked up here: {why}; {todo}"))
}
