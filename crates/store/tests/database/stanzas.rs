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

fn fault() -> FileFault {
    let message = "a header is not closed".to_owned();
    FileFault { kind: "dangling_header".to_owned(), line: 7, count: 2, message }
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
    batch.add_file(&FileFacts { fault: Some(fault()), ..facts("a/default/macros.conf", "macros", 1, 2) });
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
    assert_eq!(files[1].fault, Some(fault()));
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

/// A file whose middle stanza has many settings, in batches of so many rows.
fn long_stanza(settings: u32, rows: u32) -> Vec<ParsedBatch> {
    let mut batch = ParsedBatch::of_rows(rows);
    let mut all = Vec::new();
    let count = usize::try_from(settings).unwrap();
    batch.add_file(&facts("a/default/props.conf", "props", 3, count + 2));
    batch.add_stanza(Some("before"), (1, 2), [("k", "v", 2)]);
    batch.begin_stanza(Some("long"), (3, settings + 3));
    for nth in 0..settings {
        batch.add_setting(&format!("key {nth}"), &format!("value word_{nth}"), nth + 4);
        if batch.is_full() {
            all.push(batch.take());
        }
    }
    batch.end_stanza();
    batch.add_stanza(Some("after"), (settings + 4, settings + 5), [("k", "v", settings + 5)]);
    all.push(batch.take());
    all
}

/// A try that dies after any of a long stanza's batches is made whole by the next, however that divides it.
async fn a_long_stanza_goes_in_by_parts_and_a_crash_between_them_heals(subject: TestStore) {
    let (held, data) = (hold(&subject, "apps.tgz", b"x").await, subject.store.data());
    let whole = long_stanza(100, 10_000);
    assert_eq!(whole.len(), 1);
    for batch in whole {
        data.add_parsed(&held.run, &held.upload, batch).await.unwrap();
    }
    let expected = stanzas(&subject, held.run.run_id, 9).await;
    let content =
        |rows: &[StanzaRow]| -> Vec<_> { rows.iter().map(|row| (row.name.clone(), row.settings.clone())).collect() };
    assert_eq!(expected.iter().map(|row| row.settings.len()).collect::<Vec<_>>(), [1, 100, 1]);
    let parts = long_stanza(100, 10).len();
    assert!(parts >= 10, "{parts}");
    for dies_after in 0..=parts {
        let held = hold(&subject, "apps.tgz", format!("{dies_after}").as_bytes()).await;
        for batch in long_stanza(100, 10).into_iter().take(dies_after) {
            data.add_parsed(&held.run, &held.upload, batch).await.unwrap();
        }
        let seen = stanzas(&subject, held.run.run_id, 9).await;
        assert!(seen.iter().all(|row| expected.iter().any(|other| other.settings == row.settings)), "none is in half");
        let word =
            Search { word: Some("word_3".to_owned()), run: Some(held.run.run_id), limit: 9, ..Search::default() };
        assert!(subject.store.view().search(word.clone()).await.unwrap().len() <= 1);
        let mut added = 0;
        for batch in long_stanza(100, 17) {
            match data.add_parsed(&held.run, &held.upload, batch).await.unwrap() {
                StanzasAdded::New(new) => added += new,
                StanzasAdded::Lost => panic!("the claim is held"),
            }
        }
        assert_eq!(added + seen.len(), 3);
        assert_eq!(content(&stanzas(&subject, held.run.run_id, 9).await), content(&expected), "after {dies_after}");
        assert_eq!(subject.store.view().search(word).await.unwrap().len(), 1);
    }
}

/// A stanza of more settings than a page holds is read in parts that make it whole.
async fn a_long_stanza_is_read_by_parts(subject: TestStore) {
    let (held, data) = (hold(&subject, "apps.tgz", b"x").await, subject.store.data());
    for batch in long_stanza(12_000, 4000) {
        data.add_parsed(&held.run, &held.upload, batch).await.unwrap();
    }
    for name in [None, Some("long".to_owned())] {
        let mut page = StanzaPage { run_id: held.run.run_id, file: None, name: name.clone(), after: None, limit: 500 };
        let (mut lines, mut parts) = (Vec::new(), Vec::new());
        loop {
            let next = subject.store.view().stanzas(page.clone()).await.unwrap();
            let Some(last) = next.last() else { break };
            page.after = Some(last.place);
            assert!(next.iter().map(|row| row.settings.len()).sum::<usize>() <= 5000);
            for row in next.iter().filter(|row| row.name.as_deref() == Some("long")) {
                parts.push((row.is_continued, row.continues()));
                lines.extend(row.settings.iter().map(|setting| setting.line));
            }
        }
        assert_eq!(lines, (4..12_004).collect::<Vec<u32>>(), "{name:?}");
        assert_eq!(parts, [(false, true), (true, true), (true, false)], "{name:?}");
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
    assert!(data.forget_parsed(&held.run, &held.upload).await.unwrap());
    assert_eq!(rows(&subject), [0, 0, 0, 0], "also its words are gone");
    assert_eq!(data.add_parsed(&held.run, &held.upload, two_files()).await.unwrap(), StanzasAdded::New(3));
}

/// How many files, stanzas, settings and words there are.
fn rows(subject: &TestStore) -> [i64; 4] {
    ["files", "stanzas", "settings", "words"]
        .map(|table| subject.database.number(&format!("SELECT count(*) FROM {table}")))
}

/// Forgetting goes by small steps, each of which looks whether the run is still the worker's.
async fn a_worker_that_lost_its_lease_forgets_nothing(subject: TestStore) {
    let (held, data) = (hold(&subject, "apps.tgz", b"x").await, subject.store.data());
    data.add_parsed(&held.run, &held.upload, two_files()).await.unwrap();
    let before = rows(&subject);
    subject.clock.advance(LEASE * 2);
    let policy = redrive_core::retry::RetryPolicy::ingest();
    data.expire(Workload::Ingest, 9, move |_| policy.clone()).await.unwrap();
    assert!(!data.forget_parsed(&held.run, &held.upload).await.unwrap());
    assert_eq!(rows(&subject), before);
}

/// Retention: first the runs are forgotten, then what was parsed of them, step by step; other uploads stay.
async fn uploads_that_ended_long_ago_are_forgotten_with_all_that_was_parsed(subject: TestStore) {
    let (data, control) = (subject.store.data(), subject.store.control());
    let young_in_the_end = hold(&subject, "young.tgz", b"young").await;
    let old = hold(&subject, "old.tgz", b"old").await;
    for batch in long_stanza(9_000, 4000) {
        data.add_parsed(&old.run, &old.upload, batch).await.unwrap();
    }
    data.add_parsed(&young_in_the_end.run, &young_in_the_end.upload, two_files()).await.unwrap();
    complete(&subject, &old).await;
    subject.clock.advance(LEASE / 2);
    let ended_before = subject.store.now();
    complete(&subject, &young_in_the_end).await;
    let pruning = redrive_store::Pruning { workload: Workload::Ingest, categories: None, ended_before };
    let page = subject.store.view().prunable_runs(pruning.clone(), None, 9).await.unwrap().unwrap();
    assert_eq!(control.prune_runs(None, pruning, page).await.unwrap(), 1);
    assert_eq!(subject.store.view().run(old.run.run_id).await.unwrap(), None);
    let by_key = Search { key: Some("key 7".to_owned()), limit: 9, ..Search::default() };
    assert_eq!(subject.store.view().search(by_key).await.unwrap(), [], "nothing of it is found from then on");
    let mut calls = 0;
    while control.forget_uploads(2).await.unwrap() {
        calls += 1;
        assert!(calls < 50, "it comes to an end");
    }
    assert!(calls > 1, "{calls}: it goes by small steps");
    assert_eq!(rows(&subject)[..3], [2, 3, 5], "the other upload is whole");
    assert_eq!(subject.database.number("SELECT count(*) FROM uploads"), 1);
    let by_word = Search { word: Some("other_macro".to_owned()), limit: 9, ..Search::default() };
    assert_eq!(subject.store.view().search(by_word).await.unwrap().len(), 1);
    let expected = {
        let fresh = hold(&subject, "again.tgz", b"again").await;
        let before = rows(&subject)[3];
        data.add_parsed(&fresh.run, &fresh.upload, two_files()).await.unwrap();
        rows(&subject)[3] - before
    };
    assert_eq!(rows(&subject)[3], 2 * expected, "no word of the old upload is left");
}

/// A name that looks like what stands for a long one is a name of its own.
async fn no_name_is_taken_for_a_long_one(subject: TestStore) {
    let held = hold(&subject, "apps.tgz", b"x").await;
    let long = "n".repeat(1000);
    let alike = format!("{}#{}", &long[..40], Sha256::of(long.as_bytes()));
    let mut batch = ParsedBatch::default();
    batch.add_file(&facts("a/default/props.conf", "props", 2, 0));
    batch.add_stanza(Some(&long), (1, 1), []);
    batch.add_stanza(Some(&alike), (2, 2), []);
    let added = subject.store.data().add_parsed(&held.run, &held.upload, batch.take()).await.unwrap();
    assert_eq!(added, StanzasAdded::New(2));
    let names: Vec<_> = stanzas(&subject, held.run.run_id, 9).await.into_iter().filter_map(|row| row.name).collect();
    assert_eq!(names, [long, alike]);
}

/// A limit gives the same settings each time; one run is searched by itself.
async fn a_search_with_a_limit_is_stable_and_one_run_is_searched_alone(subject: TestStore) {
    let data = subject.store.data();
    let mut runs = Vec::new();
    for nth in 0..3 {
        let held = hold(&subject, "apps.tgz", format!("{nth}").as_bytes()).await;
        let mut batch = ParsedBatch::default();
        batch.add_file(&facts("a/default/props.conf", "props", 1, 600));
        let values: Vec<String> = (0..600).map(|value| format!("{}", (value * 7 + nth) % 600)).collect();
        batch.add_stanza(Some("s"), (1, 601), (2..).zip(&values).map(|(line, value)| ("same", value.as_str(), line)));
        data.add_parsed(&held.run, &held.upload, batch.take()).await.unwrap();
        complete(&subject, &held).await;
        runs.push(held.run.run_id);
    }
    let view = subject.store.view();
    let by_key = Search { key: Some("same".to_owned()), limit: 50, ..Search::default() };
    let all = view.search(Search { limit: 10_000, ..by_key.clone() }).await.unwrap();
    assert_eq!(all.len(), 1800);
    let values: Vec<&str> = all.iter().map(|hit| hit.value.as_str()).collect();
    assert!(values.is_sorted(), "in the order of the index");
    assert_eq!(view.search(by_key.clone()).await.unwrap(), all[..50]);
    for run in &runs {
        let hits = view.search(Search { run: Some(*run), ..by_key.clone() }).await.unwrap();
        assert!(hits.len() == 50 && hits.iter().all(|hit| hit.run_id == *run));
        assert!(hits.is_sorted_by_key(|hit| hit.line));
        let value = Search { run: Some(*run), value: Some(Match::Exact("7".to_owned())), key: None, ..by_key.clone() };
        assert_eq!(view.search(value).await.unwrap().len(), 1);
    }
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
    a_long_stanza_goes_in_by_parts_and_a_crash_between_them_heals,
    a_long_stanza_is_read_by_parts,
    a_worker_that_lost_its_lease_adds_nothing,
    a_worker_that_lost_its_lease_forgets_nothing,
    uploads_that_ended_long_ago_are_forgotten_with_all_that_was_parsed,
    no_name_is_taken_for_a_long_one,
    a_search_with_a_limit_is_stable_and_one_run_is_searched_alone,
    what_is_forgotten_can_be_added_again,
    the_same_bytes_name_the_run_before,
    settings_are_found_by_each_condition_and_by_all_together,
    what_is_longer_than_an_index_takes_is_kept_and_found,
);
