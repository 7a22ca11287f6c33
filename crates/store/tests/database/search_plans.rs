//! Every search steps down an index; nothing reads all settings. And how long searches take over a million of them.

use std::fmt::Write as _;
use std::time::Instant;

use redrive_core::run::{End, Verdict, Workload};
use redrive_store::raw::Sha256;
use redrive_store::statements::{self, For};
use redrive_store::{FileFacts, Match, ParsedBatch, RunClaim, Search, StoreUrl, StoredBytes};

use crate::support::{LEASE, TestStore};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn searches() -> Vec<(&'static str, Search)> {
    let prefix = |value: &str| Some(Match::Prefix(value.to_owned()));
    let exact = |value: &str| Some(Match::Exact(value.to_owned()));
    let all = Search { limit: 100, ..Search::default() };
    vec![
        ("conf", Search { conf: text("conf_7"), ..all.clone() }),
        ("stanza", Search { stanza: text("stanza 77"), ..all.clone() }),
        ("key", Search { key: text("key_3"), ..all.clone() }),
        ("key of a conf that has it not", Search { key: text("key_3"), conf: text("lone"), ..all.clone() }),
        ("value", Search { value: exact("value 777 of 5"), ..all.clone() }),
        ("value by its beginning", Search { value: prefix("value 777"), ..all.clone() }),
        ("key and value", Search { key: text("key_3"), value: prefix("value 77"), ..all.clone() }),
        ("key and a value it has not", Search { key: text("key_3"), value: exact("true"), ..all.clone() }),
        ("rare word", Search { word: text("macro_77777"), ..all.clone() }),
        ("common word", Search { word: text("index"), ..all.clone() }),
        ("word that is not there", Search { word: text("nowhere_at_all"), ..all.clone() }),
        ("words that are nowhere together", Search { word: text("macro_11111 macro_22222"), ..all.clone() }),
        ("stanza and word", Search { stanza: text("stanza 77"), word: text("index"), ..all }),
    ]
}

/// Fills uploads of 50 files, each with 100 stanzas of 10 settings.
async fn fill(subject: &TestStore, uploads: usize) -> (usize, std::time::Duration) {
    let data = subject.store.data();
    let (mut settings, mut spent) = (0, std::time::Duration::ZERO);
    for upload in 0..uploads {
        let run_id = data.begin_upload("apps.tgz").await.unwrap();
        let sha256 = Sha256::of(&upload.to_le_bytes());
        data.stored(run_id, StoredBytes { object: run_id.to_string(), bytes: 1, sha256 }).await.unwrap();
        let claim = RunClaim::new(Workload::Ingest, "w", 1, LEASE);
        let run = data.claim_runs(claim).await.unwrap().remove(0).run;
        let stored = data.begin_parsing(&run).await.unwrap().unwrap();
        let mut batch = ParsedBatch::default();
        for file in 0..50 {
            let (path, conf) = (format!("app/default/conf_{file}.conf"), format!("conf_{file}"));
            batch.add_file(&FileFacts {
                path: &path,
                conf: if file == 49 { "lone" } else { &conf },
                layer: "default",
                bytes: 1,
                stanzas: 100,
                settings: 1000,
                fault: None,
            });
            for stanza in 0..100 {
                let entries: Vec<(String, String)> = (0..10).map(|nth| entry(upload, file, stanza, nth)).collect();
                let name = format!("stanza {stanza}");
                batch.add_stanza(
                    Some(&name),
                    (1, 9),
                    entries.iter().map(|(key, value)| (key.as_str(), value.as_str(), 2)),
                );
                settings += 10;
                if batch.is_full() {
                    let begun = Instant::now();
                    data.add_parsed(&run, &stored, batch.take()).await.unwrap();
                    spent += begun.elapsed();
                }
            }
        }
        let begun = Instant::now();
        data.add_parsed(&run, &stored, batch.take()).await.unwrap();
        spent += begun.elapsed();
        let end = End::Completed { verdict: Verdict::Passed, metrics: None };
        data.record(vec![(run, end)]).await.unwrap();
    }
    (settings, spent)
}

/// What real files hold: switches, short values, and a search of many words.
fn entry(upload: usize, file: usize, stanza: usize, nth: usize) -> (String, String) {
    let number = upload * 50_000 + file * 1_000 + stanza * 10 + nth;
    match nth {
        0 => ("disabled".to_owned(), "true".to_owned()),
        1 => {
            let words = "| tstats count from datamodel=Web where earliest=-24h by host, source | rename a as b";
            ("search".to_owned(), format!("index=main sourcetype=st_{stanza} `macro_{number}` {words}"))
        }
        _ => (format!("key_{nth}"), format!("value {number} of {nth}")),
    }
}

/// The plans of all statements of a search, as the database tells them.
fn plans(subject: &TestStore, search: &Search) -> String {
    let mut all = String::new();
    match &subject.database.url {
        StoreUrl::Sqlite(path) => {
            let connection = rusqlite::Connection::open(path).unwrap();
            for (sql, _) in statements::search(For::Sqlite, search) {
                let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
                let mut rows = plan.raw_query();
                while let Some(row) = rows.next().unwrap() {
                    writeln!(all, "{}", row.get::<_, String>(3).unwrap()).unwrap();
                }
            }
        }
        StoreUrl::Postgres(_) => {
            for (sql, params) in statements::search(For::Postgres, search) {
                let session = statements::POSTGRES_SESSION;
                let execute = format!("EXPLAIN EXECUTE p({})", params.join(", "));
                let told = subject
                    .database
                    .server
                    .as_ref()
                    .unwrap()
                    .query(&format!("{session}; PREPARE p AS {sql}; {execute}"));
                writeln!(all, "{told}").unwrap();
            }
        }
    }
    all
}

async fn no_search_reads_a_whole_table(subject: TestStore) {
    fill(&subject, 1).await;
    for (what, search) in searches() {
        let plans = plans(&subject, &search);
        assert!(!plans.contains("Seq Scan") && !plans.contains("SCAN "), "{what}:\n{plans}");
        assert!(plans.contains("Index") || plans.contains("SEARCH "), "{what}:\n{plans}");
        // A key that everybody uses has many hits, of which the first few are wanted.
        assert!(what != "key" || !plans.contains("TEMP B-TREE"), "{what}:\n{plans}");
    }
}

crate::on_both_databases!(no_search_reads_a_whole_table);

async fn a_million(subject: TestStore) {
    let (settings, spent) = fill(&subject, 20).await;
    let rate = settings as f64 / spent.as_secs_f64();
    println!("{}: {settings} settings in {spent:?}: {rate:.0} settings/s", subject.store.kind());
    if let StoreUrl::Postgres(_) = subject.database.url {
        subject.database.server.as_ref().unwrap().query("ANALYZE");
    }
    for (what, search) in searches() {
        let mut best = std::time::Duration::MAX;
        let mut hits = 0;
        for _ in 0..5 {
            let begun = Instant::now();
            hits = subject.store.view().search(search.clone()).await.unwrap().len();
            best = best.min(begun.elapsed());
        }
        println!("{:>9.2?}  {hits:>3} hits  {what}\n{}", best, plans(&subject, &search));
        assert!(cfg!(debug_assertions) || best < std::time::Duration::from_millis(50), "{what} took {best:?}");
    }
}

mod long {
    use crate::support::TestStore;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "long: a measurement over a million settings"]
    async fn a_million_settings_on_sqlite() {
        super::a_million(TestStore::sqlite().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "long: a measurement over a million settings"]
    async fn a_million_settings_on_postgres() {
        super::a_million(TestStore::postgres().await).await;
    }
}
