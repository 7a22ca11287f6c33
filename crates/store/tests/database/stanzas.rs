//! What ingestion parsed: a retry adds only what is not there yet.

use crate::steps;
use redrive_core::id::RunId;
use redrive_store::{NewFile, NewStanza, Stanza};
use uuid::Uuid;

use crate::support::Subject;

pub async fn upload(subject: &Subject) -> RunId {
    let upload = steps::upload(subject.now());
    subject.store.control().submit(vec![upload]).await.unwrap()[0].run_id
}

fn file(path: &str) -> NewFile {
    NewFile { path: path.to_owned(), bytes: 10, sha256: "ab".repeat(32) }
}

pub fn stanza(file_id: Uuid, name: Option<&str>, line: u32, entries: &[(&str, &str)]) -> NewStanza {
    NewStanza {
        file_id,
        name: name.map(str::to_owned),
        source_path: "etc/app.conf".to_owned(),
        line,
        layer: Some("local".to_owned()),
        entries: entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

/// IN-6
async fn a_retry_makes_no_duplicates(subject: Subject) {
    let (data, run) = (subject.store.data(), upload(&subject).await);
    let id = data.file(run, file("etc/app.conf")).await.unwrap();
    let first = vec![
        stanza(id, None, 1, &[("a", "1"), ("a", "2"), ("b", "")]),
        stanza(id, Some("main"), 5, &[("k", "v")]),
        stanza(id, Some(""), 7, &[]),
    ];
    assert_eq!(data.add_stanzas(run, first.clone()).await.unwrap(), 3);
    let before = subject.store.view().stanzas(run).await.unwrap();
    assert_eq!(data.add_stanzas(run, first.clone()).await.unwrap(), 0);
    assert_eq!(subject.store.view().stanzas(run).await.unwrap(), before);
    // The worker died half-way the first time: some are there, some are not, and one comes twice.
    let more = stanza(id, Some("more"), 9, &[("x", "y")]);
    let all = [first.clone(), vec![more.clone(), more.clone()]].concat();
    assert_eq!(data.add_stanzas(run, all).await.unwrap(), 1);
    let stored = subject.store.view().stanzas(run).await.unwrap();
    let expected: Vec<Stanza> = first
        .into_iter()
        .chain([more])
        .map(|new| Stanza {
            file: "etc/app.conf".to_owned(),
            source_path: new.source_path,
            name: new.name,
            line: new.line,
            layer: new.layer,
            entries: new.entries,
        })
        .collect();
    assert_eq!(stored, expected);
    assert_eq!(subject.raw().await.int("SELECT count(*) FROM settings").await, 5);
}

/// IN-6: the same name elsewhere is another stanza.
async fn a_stanza_is_known_by_run_file_name_and_path(subject: Subject) {
    let data = subject.store.data();
    let (run, other) = (upload(&subject).await, upload(&subject).await);
    let [a, b] = [data.file(run, file("a.conf")).await.unwrap(), data.file(run, file("b.conf")).await.unwrap()];
    let c = data.file(other, file("a.conf")).await.unwrap();
    let moved = NewStanza { source_path: "elsewhere".to_owned(), ..stanza(a, Some("main"), 1, &[]) };
    let one_run =
        vec![stanza(a, Some("main"), 1, &[]), stanza(b, Some("main"), 1, &[]), moved, stanza(a, Some("MAIN"), 2, &[])];
    assert_eq!(data.add_stanzas(run, one_run).await.unwrap(), 4);
    assert_eq!(data.add_stanzas(other, vec![stanza(c, Some("main"), 1, &[])]).await.unwrap(), 1);
    assert_eq!(data.add_stanzas(run, vec![]).await.unwrap(), 0);
    assert_eq!(subject.store.view().stanzas(other).await.unwrap().len(), 1);
}

/// IN-6
async fn a_files_id_is_the_same_on_every_retry(subject: Subject) {
    let (run, other) = (upload(&subject).await, upload(&subject).await);
    let data = subject.store.data();
    let first = data.file(run, file("a.conf")).await.unwrap();
    assert_eq!(subject.again().await.data().file(run, file("a.conf")).await.unwrap(), first);
    assert_ne!(data.file(run, file("A.conf")).await.unwrap(), first);
    assert_ne!(data.file(other, file("a.conf")).await.unwrap(), first);
}

/// IN-6: two workers who both believe the run is theirs.
async fn concurrent_retries_make_no_duplicates(subject: Subject) {
    let run = upload(&subject).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = subject.again().await;
        tasks.push(tokio::spawn(async move {
            let id = store.data().file(run, file("a.conf")).await.unwrap();
            let names: Vec<String> = (0..50).map(|nth| format!("s{nth}")).collect();
            let all = names.iter().map(|name| stanza(id, Some(name), 1, &[("k", "v"), ("l", "w")])).collect();
            store.data().add_stanzas(run, all).await.unwrap()
        }));
    }
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    assert_eq!(new, 50);
    let stored = subject.store.view().stanzas(run).await.unwrap();
    assert_eq!((stored.len(), stored.iter().all(|stanza| stanza.entries.len() == 2)), (50, true));
}

crate::on_both_databases!(
    a_retry_makes_no_duplicates,
    a_stanza_is_known_by_run_file_name_and_path,
    a_files_id_is_the_same_on_every_retry,
    concurrent_retries_make_no_duplicates,
);
