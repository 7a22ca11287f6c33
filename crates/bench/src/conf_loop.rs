//! The hand-written loop that the inserts of stanzas are measured against: the store's own statements with the rows that the
//! store made, in transactions of the same size.

use std::time::{Duration, Instant};

use redrive_store::statements::{self, For};
use redrive_store::{BATCH_ROWS, StoreUrl};
use rusqlite::{TransactionBehavior, params};
use tokio_postgres::types::ToSql;

use crate::{Result, plain};

/// What the store has put into its tables.
#[derive(Debug, Default)]
pub struct Rows {
    stanzas: Vec<Stanza>,
    settings: Vec<Setting>,
    words: Vec<(i64, i64)>,
}

#[derive(Debug, Clone)]
struct Stanza {
    numbers: [i64; 6],
    name: Option<String>,
    long_name: Option<String>,
}

#[derive(Debug, Clone)]
struct Setting {
    numbers: [i64; 4],
    key: String,
    value: String,
}

impl Rows {
    /// Stanzas and settings.
    pub fn count(&self) -> u64 {
        u64::try_from(self.stanzas.len() + self.settings.len()).unwrap_or(u64::MAX)
    }

    /// How many transactions they are added by.
    fn transactions(&self) -> usize {
        let rows = usize::try_from(self.count()).unwrap_or(usize::MAX);
        rows.div_ceil(usize::try_from(BATCH_ROWS).unwrap_or(usize::MAX)).max(1)
    }

    /// What the nth of so many transactions adds.
    fn part(&self, nth: usize, of: usize) -> (&[Stanza], &[Setting], &[(i64, i64)]) {
        fn share<T>(all: &[T], nth: usize, of: usize) -> &[T] {
            &all[all.len() * nth / of..all.len() * (nth + 1) / of]
        }
        (share(&self.stanzas, nth, of), share(&self.settings, nth, of), share(&self.words, nth, of))
    }
}

const STANZAS: &str = "SELECT stanza_id, file_id, first_setting, CAST(settings AS BIGINT), CAST(line AS BIGINT),
    CAST(last_line AS BIGINT), name, long_name FROM stanzas ORDER BY stanza_id";
const SETTINGS: &str = "SELECT setting_id, stanza_id, CAST(conf_id AS BIGINT), CAST(line AS BIGINT), key, value
    FROM settings ORDER BY setting_id";
/// In the order in which batches add them: block after block.
const WORDS: &str = "SELECT CAST(word AS BIGINT), block FROM words ORDER BY block / 16, word, block";

/// Reads all rows of a database.
pub async fn rows(url: &StoreUrl) -> Result<Rows> {
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || {
                let connection = plain::sqlite(&path)?;
                let mut rows = Rows::default();
                let mut found = connection.prepare(STANZAS)?;
                let made = found.query_map([], |row| {
                    let numbers = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
                    Ok(Stanza { numbers, name: row.get(6)?, long_name: row.get(7)? })
                })?;
                rows.stanzas = made.collect::<std::result::Result<_, _>>()?;
                let mut found = connection.prepare(SETTINGS)?;
                let made = found.query_map([], |row| {
                    let numbers = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
                    Ok(Setting { numbers, key: row.get(4)?, value: row.get(5)? })
                })?;
                rows.settings = made.collect::<std::result::Result<_, _>>()?;
                let mut found = connection.prepare(WORDS)?;
                let made = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.words = made.collect::<std::result::Result<_, _>>()?;
                Ok(rows)
            })
            .await?
        }
        StoreUrl::Postgres(url) => {
            let client = plain::postgres(url).await?;
            let stanzas = client.query(STANZAS, &[]).await?.into_iter().map(|row| Stanza {
                numbers: [0, 1, 2, 3, 4, 5].map(|nth| row.get(nth)),
                name: row.get(6),
                long_name: row.get(7),
            });
            let settings = client.query(SETTINGS, &[]).await?.into_iter().map(|row| Setting {
                numbers: [0, 1, 2, 3].map(|nth| row.get(nth)),
                key: row.get(4),
                value: row.get(5),
            });
            let words = client.query(WORDS, &[]).await?.into_iter().map(|row| (row.get(0), row.get(1)));
            Ok(Rows { stanzas: stanzas.collect(), settings: settings.collect(), words: words.collect() })
        }
    }
}

/// Adds rows to a database that has none; gives the time that it took.
pub async fn run(url: &StoreUrl, rows: Rows) -> Result<Duration> {
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || on_sqlite(&mut plain::sqlite(&path)?, &rows)).await?
        }
        StoreUrl::Postgres(url) => on_postgres(url, &rows).await,
    }
}

fn on_sqlite(connection: &mut rusqlite::Connection, rows: &Rows) -> Result<Duration> {
    let (start, of) = (Instant::now(), rows.transactions());
    for nth in 0..of {
        let (stanzas, settings, words) = rows.part(nth, of);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = tx.prepare_cached(&statements::insert_stanzas(For::Sqlite))?;
            for Stanza { numbers: [a, b, c, d, e, f], name, long_name } in stanzas {
                insert.execute(params![a, b, c, d, e, f, name, long_name])?;
            }
            let mut insert = tx.prepare_cached(&statements::insert_settings(For::Sqlite))?;
            for Setting { numbers: [a, b, c, d], key, value } in settings {
                insert.execute(params![a, b, c, d, key, value])?;
            }
            let mut insert = tx.prepare_cached(&statements::insert_words(For::Sqlite))?;
            for (word, block) in words {
                insert.execute(params![word, block])?;
            }
        }
        tx.commit()?;
    }
    Ok(start.elapsed())
}

async fn on_postgres(url: &str, rows: &Rows) -> Result<Duration> {
    let mut client = plain::postgres(url).await?;
    let stanzas_sql = client.prepare(&statements::insert_stanzas(For::Postgres)).await?;
    let settings_sql = client.prepare(&statements::insert_settings(For::Postgres)).await?;
    let words_sql = client.prepare(&statements::insert_words(For::Postgres)).await?;
    let (start, of) = (Instant::now(), rows.transactions());
    for nth in 0..of {
        let (stanzas, settings, words) = rows.part(nth, of);
        let tx = client.transaction().await?;
        let number = |nth: usize| stanzas.iter().map(|stanza| stanza.numbers[nth]).collect::<Vec<i64>>();
        let numbers = [0, 1, 2, 3, 4, 5].map(number);
        let names: Vec<Option<&str>> = stanzas.iter().map(|stanza| stanza.name.as_deref()).collect();
        let long: Vec<Option<&str>> = stanzas.iter().map(|stanza| stanza.long_name.as_deref()).collect();
        let [a, b, c, d, e, f] = &numbers;
        let values: [&(dyn ToSql + Sync); 8] = [a, b, c, d, e, f, &names, &long];
        tx.query(&stanzas_sql, &values).await?;
        let number = |nth: usize| settings.iter().map(|setting| setting.numbers[nth]).collect::<Vec<i64>>();
        let [a, b, c, d] = &[0, 1, 2, 3].map(number);
        let keys: Vec<&str> = settings.iter().map(|setting| setting.key.as_str()).collect();
        let texts: Vec<&str> = settings.iter().map(|setting| setting.value.as_str()).collect();
        let values: [&(dyn ToSql + Sync); 6] = [a, b, c, d, &keys, &texts];
        tx.execute(&settings_sql, &values).await?;
        let (hashes, blocks): (Vec<i64>, Vec<i64>) = words.iter().copied().unzip();
        tx.execute(&words_sql, &[&hashes, &blocks]).await?;
        tx.commit().await?;
    }
    Ok(start.elapsed())
}
