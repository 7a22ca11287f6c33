//! What ingestion parsed: added once, whole or not at all, read in order, and found by index.

use redrive_core::id::RunId;
use redrive_core::run::{End, Run, State, Verdict, Workload};
use redrive_store::raw::Sha256;
use redrive_store::{
    FileFacts, FileFault, FilePage, Hit, Match, ParsedBatch, RunClaim, Search, StanzaPage, StanzaRow, StanzasAdded,
    StoredBytes, Upload,
};

use crate::support::{LEASE, TestStore};

/// An upload that a worker holds.
struct Held {
    run: Run,
    upload: Upload,
}

async fn hold(subject: &TestStore, name: &str, content: &[u8]) -> Held {
    let data = subject.store.data();
    let run_id = data.begin_upload(name).await.unwrap();
    assert_eq!(state(subject, run_id).await, State::Storing);
    let stored = StoredBytes { object: format!("o/{run_id}"), bytes: 3, sha256: Sha256::of(content) };
    let (run, _) = data.stored(run_id, stored).await.unwrap();
    assert_eq!(run.state, State::Queued);
    claim(subject).await
}

async fn claim(subject: &TestStore) -> Held {
    let data = subject.store.data();
    let claim = RunClaim::new(Workload::Ingest, "w", 1, LEASE);
    let run = data.claim_runs(claim).await.unwrap().remove(0).run;
    let upload = data.begin_parsing(&run).await.unwrap().unwrap();
    Held { run, upload }
}

async fn state(subject: &TestStore, run_id: RunId) -> State {
    subject.store.view().run(run_id).await.unwrap().unwrap().state
}

async fn complete(subject: &TestStore, held: &Held) {
    let end = End::Completed { verdict: Verdict::Passed, metrics: None };
    subject.store.data().record(vec![(held.run.clone(), end)]).await.unwrap();
}

fn facts<'f>(path: &'f str, conf: &'f str, stanzas: usize, settings: usize) -> FileFacts<'f> {
    FileFacts { path, conf, layer: "default", bytes: 10, stanzas, settings, fault: None }
}

/// Two files: three stanzas, five settings.
fn two_files() -> ParsedBatch {
    let mut batch = ParsedBatch::default();
    batch.add_file(&facts("a/default/props.conf", "props", 2, 3));
    batch.add_stanza(None, (1, 1), [("x", "1", 1)]);
    batch.add_stanza(Some("host::b"), (2, 4), [("TRANSFORMS-set", "one, two", 3), ("TZ", "UTC", 4)]);
    let fault = FileFault { kind: "dangling_header".to_owned(), line: 7, count: 2 };
    batch.add_file(&FileFacts { fault: Some(fault), ..facts("a/default/macros.conf", "macros", 1, 2) });
    batch.add_stanza(Some("m(1)"), (1, 3), [("definition", "`other_macro` index=main", 2), ("args", "x", 3)]);
    batch.take()
}

async fn stanzas(subject: &TestStore, run_id: RunId, limit: u32) -> Vec<StanzaRow> {
    let mut page = StanzaPage { run_id, file: None, name: None, after: None, limit };
    let mut all = Vec::new();
    loop {
        let next = subject.store.view().stanzas(page.clone()).await.unwrap();
        let Some(last) = next.last() else { return all };
        page.after = Some(last.place);
        all.extend(next);
    }
}

async fn what_was_added_is_read_in_order_whatever_the_page(subject: TestStore) {
    let held = hold(&subject, "apps.tgz", b"x").await;
    let added = subject.store.data().add_parsed(&held.run, &held.upload, two_files()).await.unwrap();
    assert_eq!(added, StanzasAdded::New(3));
    let all = stanzas(&subject, held.run.run_id, 100).await;
    assert_eq!(all, stanzas(&subject, held.run.run_id, 1).await);
    let told: Vec<_> = all
        .iter()
        .map(|stanza| {
            let entries: Vec<_> = stanza.settings.iter().map(|s| (s.key.as_str(), s.value.as_str(), s.line)).collect();
            (stanza.file.path.as_str(), stanza.name.as_deref(), stanza.line, stanza.last_line, entries)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a/default/props.conf", None, 1, 1, vec![("x", "1", 1)]),
            ("a/default/props.conf", Some("host::b"), 2, 4, vec![("TRANSFORMS-set", "one, two", 3), ("TZ", "UTC", 4)]),
            (
                "a/default/macros.conf",
                Some("m(1)"),
                1,
                3,
                vec![("definition", "`other_macro` index=main", 2), ("args", "x", 3)]
            ),
        ]
    );
    let files = subject.store.view().files(FilePage { run_id: held.run.run_id, after: None, limit: 9 }).await.unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!(files[1].fault, Some(FileFault { kind: "dangling_header".to_owned(), line: 7, count: 2 }));
    for (file, name, count) in
        [(Some(0), None, 2), (Some(1), Some("m(1)"), 1), (None, Some("m(1)"), 1), (Some(0), Some("m(1)"), 0)]
    {
        let page = StanzaPage {
            run_id: held.run.run_id,
            file: file.map(|nth: usize| files[nth].clone()),
            name: name.map(str::to_owned),
            after: None,
            limit: 9,
        };
        assert_eq!(subject.store.view().stanzas(page).await.unwrap().len(), count, "{file:?} {name:?}");
    }
}

async fn a_retry_adds_only_what_is_missing(subject: TestStore) {
    let held = hold(&subject, "apps.tgz", b"x").await;
    let data = subject.store.data();
    // The first try got one stanza in and died.
    let mut begun = ParsedBatch::default();
    begun.add_file(&facts("a/default/props.conf", "props", 2, 3));
    begun.add_stanza(None, (1, 1), [("x", "1", 1)]);
    assert_eq!(data.add_parsed(&held.run, &held.upload, begun.take()).await.unwrap(), StanzasAdded::New(1));
    for new in [2, 0] {
        assert_eq!(data.add_parsed(&held.run, &held.upload, two_files()).await.unwrap(), StanzasAdded::New(new));
        let all = stanzas(&subject, held.run.run_id, 100).await;
        assert_eq!(all.len(), 3);
        assert_eq!(all.iter().map(|stanza| stanza.settings.len()).collect::<Vec<_>>(), [1, 2, 2]);
    }
}

async fn a_worker_that_lost_its_lease_adds_nothing(subject: TestStore) {
    let first = hold(&subject, "apps.tgz", b"x").await;
    subject.clock.advance(LEASE * 2);
    let policy = redrive_core::retry::RetryPolicy::ingest();
    subject.store.data().expire(Workload::Ingest, 9, move |_| policy.clone()).await.unwrap();
    let data = subject.store.data();
    assert_eq!(data.add_parsed(&first.run, &first.upload, two_files()).await.unwrap(), StanzasAdded::Lost);
    subject.clock.advance(LEASE);
    let second = claim(&subject).await;
    assert_eq!(data.add_parsed(&first.run, &first.upload, two_files()).await.unwrap(), StanzasAdded::Lost);
    assert_eq!(stanzas(&subject, first.run.run_id, 9).await, []);
    assert_eq!(data.add_parsed(&second.run, &second.upload, two_files()).await.unwrap(), StanzasAdded::New(3));
}

async fn what_is_forgotten_can_be_added_again(subject: TestStore) {
    let (held, data) = (hold(&subject, "apps.tgz", b"x").await, subject.store.data());
    data.add_parsed(&held.run, &held.upload, two_files()).await.unwrap();
    data.forget_parsed(&held.run, &held.upload).await.unwrap();
    assert_eq!(stanzas(&subject, held.run.run_id, 9).await, []);
    assert_eq!(data.add_parsed(&held.run, &held.upload, two_files()).await.unwrap(), StanzasAdded::New(3));
}

async fn the_same_bytes_name_the_run_before(subject: TestStore) {
    let first = hold(&subject, "apps.tgz", b"same").await;
    let other = hold(&subject, "apps.tgz", b"other").await;
    let second = hold(&subject, "again.tgz", b"same").await;
    assert_eq!((first.upload.same_as, other.upload.same_as), (None, None));
    assert_eq!(second.upload.same_as, Some(first.run.run_id));
    let third = hold(&subject, "again.tgz", b"same").await;
    assert_eq!(third.upload.same_as, Some(second.run.run_id));
}

async fn keys_of(subject: &TestStore, search: Search) -> Vec<String> {
    let hits: Vec<Hit> = subject.store.view().search(Search { limit: 10, ..search }).await.unwrap();
    hits.into_iter().map(|hit| format!("{}:{}", hit.file.conf, hit.key)).collect()
}

async fn settings_are_found_by_each_condition_and_by_all_together(subject: TestStore) {
    let held = hold(&subject, "apps.tgz", b"x").await;
    subject.store.data().add_parsed(&held.run, &held.upload, two_files()).await.unwrap();
    let text = |text: &str| Some(text.to_owned());
    let by_word = Search { word: text("other_macro"), ..Search::default() };
    assert_eq!(keys_of(&subject, by_word.clone()).await, [""; 0], "only finished runs are searched");
    let of_run = Search { run: Some(held.run.run_id), ..by_word.clone() };
    assert_eq!(keys_of(&subject, of_run).await, ["macros:definition"]);
    complete(&subject, &held).await;
    let exact = |value: &str| Some(Match::Exact(value.to_owned()));
    let prefix = |value: &str| Some(Match::Prefix(value.to_owned()));
    let cases: Vec<(Search, &[&str])> = vec![
        (by_word, &["macros:definition"]),
        (Search { word: text("macro"), ..Search::default() }, &[]),
        (Search { word: text("index=main"), ..Search::default() }, &["macros:definition"]),
        (Search { word: text("main index"), ..Search::default() }, &[]),
        (Search { conf: text("props"), ..Search::default() }, &["props:x", "props:TRANSFORMS-set", "props:TZ"]),
        (Search { stanza: text("host::b"), ..Search::default() }, &["props:TRANSFORMS-set", "props:TZ"]),
        (Search { stanza: text("host::b"), key: text("TZ"), ..Search::default() }, &["props:TZ"]),
        (Search { stanza: text("host::b"), value: prefix("one"), ..Search::default() }, &["props:TRANSFORMS-set"]),
        (Search { key: text("TZ"), ..Search::default() }, &["props:TZ"]),
        (Search { key: text("TZ"), conf: text("macros"), ..Search::default() }, &[]),
        (Search { key: text("TZ"), value: exact("UTC"), ..Search::default() }, &["props:TZ"]),
        (Search { value: exact("UTC"), ..Search::default() }, &["props:TZ"]),
        (Search { value: exact("UT"), ..Search::default() }, &[]),
        (Search { value: prefix("UT"), ..Search::default() }, &["props:TZ"]),
        (Search { value: prefix("U%"), ..Search::default() }, &[]),
        (Search { key: text("args"), value: prefix(""), ..Search::default() }, &["macros:args"]),
        (Search { conf: text("nothing"), ..Search::default() }, &[]),
    ];
    for (search, expected) in cases {
        assert_eq!(keys_of(&subject, search.clone()).await, expected, "{search:?}");
    }
    let hit = subject.store.view().search(Search { key: text("TZ"), limit: 1, ..Search::default() }).await.unwrap();
    let hit = &hit[0];
    assert_eq!((hit.run_id, hit.upload.as_str(), hit.line), (held.run.run_id, "apps.tgz", 4));
    assert_eq!((hit.file.path.as_str(), hit.stanza.as_deref()), ("a/default/props.conf", Some("host::b")));
}

/// Long names, keys and values fit, and are found by all of what they are.
async fn what_is_longer_than_an_index_takes_is_kept_and_found(subject: TestStore) {
    let held = hold(&subject, "apps.tgz", b"x").await;
    let long = |last: char| format!("{}{last}", "n€".repeat(200_000));
    let mut batch = ParsedBatch::default();
    batch.add_file(&facts("a/default/props.conf", "props", 2, 2));
    for last in ['1', '2'] {
        let text = long(last);
        batch.add_stanza(Some(&text), (1, 1), [(text.as_str(), text.as_str(), 1)]);
    }
    let added = subject.store.data().add_parsed(&held.run, &held.upload, batch.take()).await.unwrap();
    assert_eq!(added, StanzasAdded::New(2));
    complete(&subject, &held).await;
    for last in ['1', '2'] {
        let name = long(last);
        let page = StanzaPage { run_id: held.run.run_id, file: None, name: Some(name.clone()), after: None, limit: 9 };
        let found = subject.store.view().stanzas(page).await.unwrap();
        assert!(found.len() == 1 && found[0].name.as_ref() == Some(&name));
        let one = |search: Search| {
            let view = subject.store.view();
            async move { view.search(Search { limit: 9, ..search }).await.unwrap() }
        };
        let value = |value| Search { value: Some(value), ..Search::default() };
        for search in [
            Search { stanza: Some(name.clone()), ..Search::default() },
            Search { key: Some(name.clone()), ..Search::default() },
            value(Match::Exact(name.clone())),
            value(Match::Prefix(name.clone())),
            Search { word: Some(name[name.len() - 1..].to_owned()), stanza: Some(name.clone()), ..Search::default() },
        ] {
            let hits = one(search).await;
            assert!(hits.len() == 1 && hits[0].value == name, "{} hits", hits.len());
        }
    }
}

crate::on_both_databases!(
    what_was_added_is_read_in_order_whatever_the_page,
    a_retry_adds_only_what_is_missing,
    a_worker_that_lost_its_lease_adds_nothing,
    what_is_forgotten_can_be_added_again,
    the_same_bytes_name_the_run_before,
    settings_are_found_by_each_condition_and_by_all_together,
    what_is_longer_than_an_index_takes_is_kept_and_found,
);
