//! What needs a person: a pure look at the overview. Nothing here is a mere number; each is something to do.

use redrive_core::fingerprint::GroupId;
use redrive_core::hold::HoldKind;
use redrive_core::process::{ASKS_WITHIN, Kind};
use redrive_core::run::{Incident, Workload};
use redrive_core::time::Timestamp;

use crate::shape::{Bounded, ProcessShape, StatusShape, WaitingJobs};

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    pub need: Need,
    pub count: Bounded,
    /// Since when, where it is known.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Partitions of a source are queued, and no living worker extracts it.
    NoWorker {
        source: String,
        has_workers: bool,
    },
    /// The breaker holds a scope.
    Breaker {
        source: String,
        customer: Option<String>,
        why: String,
    },
    /// Runs are queued, and no living worker serves their workload.
    NoRunWorker {
        workload: Workload,
    },
    /// Jobs wait whose category no section names and no living worker takes on.
    UnknownCategory {
        category: String,
    },
    /// Jobs wait that outside workers claim, and none of those lives.
    NoOutsideWorker {
        section: String,
        category: String,
    },
    /// Something is due or expected, and no daemon lives.
    NoDaemon,
    /// A process fell silent without a word.
    Silent {
        kind: Kind,
        name: String,
    },
    /// An outside worker lives and has not asked for work for long, though jobs of its categories may be queued.
    NotClaiming {
        name: String,
    },
    /// Living processes follow another configuration than this command.
    Drift {
        names: Vec<String>,
        pids: Vec<u32>,
    },
    /// A failure group's errors are final.
    Final {
        group: GroupId,
        template: String,
    },
    /// A failure group's partitions have used up what their policy allows.
    Exhausted {
        group: GroupId,
        template: String,
    },
    DeadRuns {
        workload: Workload,
    },
    /// Something went wrong between the server and outside workers within the last hour.
    Incidents {
        incident: Incident,
    },
}

impl Need {
    /// What there is, in words.
    pub fn what(&self) -> String {
        match self {
            Self::NoWorker { source, has_workers: true } => {
                format!("queued of {source}, which no living worker serves")
            }
            Self::NoWorker { source, has_workers: false } => format!("queued of {source}, and no worker lives"),
            Self::Breaker { source, customer: None, why } => format!("breaker holds {source}: {why}"),
            Self::Breaker { source, customer: Some(customer), why } => {
                format!("breaker holds {source}/{customer}: {why}")
            }
            Self::NoRunWorker { workload } => format!("queued {workload} runs, and no living worker serves them"),
            Self::UnknownCategory { category } => format!(
                "queued jobs of category {category:?}, which nobody serves: name it in a [process.NAME] section, or \
                 cancel them"
            ),
            Self::NoOutsideWorker { section, category } => format!(
                "queued jobs of category {category:?}: [process.{section}] has no command and no url, and no outside \
                 worker lives"
            ),
            Self::NoDaemon => "due or missing, and no daemon lives".to_owned(),
            Self::Silent { kind, name } => format!("{kind} {name} fell silent without ending in order"),
            Self::NotClaiming { name } => {
                format!("worker {name} is alive and asks for no work, though jobs are queued")
            }
            Self::Drift { names, .. } => {
                format!("living processes follow another configuration than this file: {}", names.join(", "))
            }
            Self::Final { template, .. } => format!("final: {template}"),
            Self::Exhausted { template, .. } => format!("out of attempts: {template}"),
            Self::DeadRuns { workload } => format!("dead {workload} runs"),
            Self::Incidents { incident: Incident::DeliveryLost } => {
                "jobs sent to outside workers that did not answer in time, within the last hour".to_owned()
            }
            Self::Incidents { incident: Incident::Late } => {
                "results of outside workers that came too late, within the last hour".to_owned()
            }
        }
    }
}

/// What needs a person, the most pressing first.
pub fn attention(status: &StatusShape) -> Vec<Attention> {
    let mut found = Vec::new();
    let mut add = |need, count: Bounded, since| found.push(Attention { need, count, since });
    let living: Vec<_> = status.processes.iter().filter(|process| process.alive).collect();
    let has_workers = living.iter().any(|process| process.kind == Kind::Worker);
    for source in &status.sources {
        let served = living.iter().any(|process| process.serves_source(&source.source));
        if !source.pending.queued.is_zero() && !served {
            let need = Need::NoWorker { source: source.source.to_string(), has_workers };
            add(need, source.pending.queued, None);
        }
    }
    for hold in status.holds.iter().filter(|hold| hold.kind == HoldKind::Breaker) {
        let customer = hold.customer_id.as_ref().map(ToString::to_string);
        let why = hold.why.clone().unwrap_or_default();
        let need = Need::Breaker { source: hold.source.to_string(), customer, why };
        add(need, Bounded::new(1), Some(hold.since));
    }
    for runs in status.runs.iter().filter(|runs| runs.workload == Workload::Ingest && !runs.queued.is_zero()) {
        if !living.iter().any(|process| process.serves_workload(runs.workload)) {
            add(Need::NoRunWorker { workload: runs.workload }, runs.queued, None);
        }
    }
    for (need, count) in unserved_jobs(status, &living) {
        add(need, count, None);
    }
    let has_daemon = living.iter().any(|process| process.kind == Kind::Daemon);
    let to_do = status.sources.iter().map(|source| source.failed.due + source.missing.unwrap_or_default());
    let to_do = to_do.fold(Bounded::default(), |all, one| all + one);
    if !has_daemon && !to_do.is_zero() {
        add(Need::NoDaemon, to_do, None);
    }
    for process in status.processes.iter().filter(|process| !process.alive) {
        let need = Need::Silent { kind: process.kind, name: process.name.clone() };
        add(need, Bounded::new(1), Some(process.last_seen));
    }
    let has_jobs = status.runs.iter().any(|runs| runs.workload == Workload::Process && !runs.queued.is_zero());
    for process in living.iter().filter(|process| has_jobs && process.kind == Kind::Outside && !process.drain) {
        let asked = process.last_claim.unwrap_or(process.started_at);
        if status.now.since(asked) >= ASKS_WITHIN {
            add(Need::NotClaiming { name: process.name.clone() }, Bounded::new(1), Some(asked));
        }
    }
    let drifting: Vec<_> = living.iter().filter(|process| process.drift).collect();
    if !drifting.is_empty() {
        let names = drifting.iter().map(|process| process.name.clone()).collect();
        let pids = drifting.iter().map(|process| process.pid).collect();
        let count = u64::try_from(drifting.len()).unwrap_or(u64::MAX);
        add(Need::Drift { names, pids }, Bounded::new(count), None);
    }
    for group in &status.groups {
        let (id, template, since) = (group.group, || group.template.clone(), Some(group.first_seen));
        if group.final_errors > 0 {
            add(Need::Final { group: id, template: template() }, Bounded::new(group.final_errors), since);
        }
        if group.exhausted > 0 {
            add(Need::Exhausted { group: id, template: template() }, Bounded::new(group.exhausted), since);
        }
    }
    for runs in &status.runs {
        if runs.workload != Workload::Extract && !runs.dead.is_zero() {
            add(Need::DeadRuns { workload: runs.workload }, runs.dead, None);
        }
    }
    found
}

/// Jobs that wait and that no living process takes on: those that a worker could handle together, the others by category.
fn unserved_jobs(status: &StatusShape, living: &[&ProcessShape]) -> Vec<(Need, Bounded)> {
    let is_unserved = |jobs: &&WaitingJobs| !living.iter().any(|process| process.serves_category(&jobs.category));
    let (mut by_worker, mut found) = (Bounded::default(), Vec::new());
    for WaitingJobs { category, count, section } in status.jobs.iter().filter(is_unserved) {
        let category = category.clone();
        match section {
            Some(section) if section.has_handler => by_worker = by_worker + *count,
            Some(section) => {
                found.push((Need::NoOutsideWorker { section: section.name.clone(), category }, *count));
            }
            None => found.push((Need::UnknownCategory { category }, *count)),
        }
    }
    if !by_worker.is_zero() {
        found.insert(0, (Need::NoRunWorker { workload: Workload::Process }, by_worker));
    }
    found
}
