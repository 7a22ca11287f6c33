//! Living processes: a beat writes one row, an orderly end takes it away, silence is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::process::{ALIVE_FOR, Kind, Living, Process, REMEMBERED_FOR, Serves};
use redrive_core::run::Workload;

use crate::support::TestStore;

fn process(subject: &TestStore, kind: Kind, config: &str) -> Process {
    let serves = Serves {
        workloads: vec![Workload::Extract],
        sources: BTreeMap::from([("ads".parse().unwrap(), Some(2)), ("crm".parse().unwrap(), None)]),
        categories: vec!["any%".to_owned()],
    };
    Process {
        id: subject.store.new_process_id(),
        kind,
        name: "ada@here pid 7".to_owned(),
        host: "here".to_owned(),
        pid: 7,
        version: "0.1.0".to_owned(),
        config: config.to_owned(),
        serves,
        started_at: subject.now(),
        last_seen: subject.now(),
        last_claim: None,
        drain: false,
    }
}

/// OP-10
async fn a_process_is_there_as_long_as_it_beats(subject: TestStore) {
    let (store, view) = (&subject.store, subject.store.view());
    let mut worker = process(&subject, Kind::Worker, "a");
    let daemon = process(&subject, Kind::Daemon, "a");
    store.beat(&worker).await.unwrap();
    store.beat(&daemon).await.unwrap();
    assert_eq!(view.processes().await.unwrap(), [daemon.clone(), worker.clone()]);
    subject.clock.advance(ALIVE_FOR);
    worker.config = "b".to_owned();
    (worker.last_seen, worker.last_claim) = (subject.now(), Some(subject.now()));
    store.beat(&worker).await.unwrap();
    let all = view.processes().await.unwrap();
    assert_eq!(all, [daemon.clone(), worker.clone()]);
    let living = Living::of(&all, subject.now());
    assert!(living.has(Kind::Worker) && !living.has(Kind::Daemon));
    store.forget_process(worker.id).await.unwrap();
    assert_eq!(view.processes().await.unwrap(), [daemon]);
    subject.clock.advance(REMEMBERED_FOR + Duration::from_secs(1));
    (worker.id, worker.last_seen) = (store.new_process_id(), subject.now());
    store.beat(&worker).await.unwrap();
    assert_eq!(view.processes().await.unwrap(), [worker], "what fell silent long ago is gone");
}

crate::on_both_databases!(a_process_is_there_as_long_as_it_beats);
