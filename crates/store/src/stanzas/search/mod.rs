//! Searches the settings of all finished uploads.
//!
//! The most telling condition chooses where to look: a stanza's name, a word, a key or a value by their indexes, or else
//! the files of a name. Stanzas, words and files give ranges of settings, which are read newest first until enough is
//! found. A key or a value is one statement over its own index; inside one run its own settings are read instead, so that what
//! other runs hold costs nothing.

mod by_range;
mod by_setting;
mod results;

use std::ops::Range;
use std::sync::Arc;

use redrive_core::id::RunId;

use self::by_range::{by_file, by_run, by_stanza, by_word};
use self::results::Results;
use super::id::UploadNo;
use super::read::FileRow;
use super::words;
use crate::db::{Cursor, Dialect, Param, Sql, Tx, render};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::uploads;

/// How many ranges are read at once, and how many settings of a file make a range.
const RANGES: usize = 32;
const RANGE: i64 = 512;

/// What to look for. Every condition that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The name of the file without its ending.
    pub conf: Option<String>,
    pub stanza: Option<String>,
    pub key: Option<String>,
    pub value: Option<Match>,
    /// A text inside values, from the beginning of a word to the end of one.
    pub word: Option<String>,
    /// Only this run, finished or not.
    pub run: Option<RunId>,
    pub limit: u32,
}

/// How a value must be.
#[derive(Debug, Clone)]
pub enum Match {
    Exact(String),
    Prefix(String),
}

/// A setting that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub run_id: RunId,
    /// The name of the upload.
    pub upload: String,
    pub file: Arc<FileRow>,
    pub stanza: Option<String>,
    pub key: String,
    pub value: String,
    pub line: u32,
}

impl View {
    /// Finds settings, newest upload first where the condition allows, at most as many as the limit says.
    pub async fn search(&self, asked: Search) -> Result<Vec<Hit>> {
        read!(self.read_by_index, "search", |tx, asked| search(tx, &asked))
    }
}

/// A setting as the statements give it.
#[derive(Debug)]
struct Found {
    id: i64,
    stanza: i64,
    key: String,
    value: String,
    line: u32,
}

fn read_found(row: &mut Cursor<'_>) -> Result<Found> {
    Ok(Found { id: row.int()?, stanza: row.int()?, key: row.text()?, value: row.text()?, line: row.count()? })
}

/// The conditions in the terms of the tables.
struct Terms<'s> {
    asked: &'s Search,
    conf: Option<i64>,
    /// The ids to look among.
    ids: Range<i64>,
    words: Vec<i64>,
}

static CONF: Sql = Sql::new(
    "/* search::conf */
     SELECT conf_id
     FROM confs
     WHERE name = ?1",
);

async fn search(tx: &mut Tx<'_>, asked: &Search) -> Result<Vec<Hit>> {
    let conf = match &asked.conf {
        Some(name) => match tx.row(&CONF, &[name.into()], |row| row.int(0)).await? {
            Some(id) => Some(id),
            None => return Ok(vec![]),
        },
        None => None,
    };
    let ids = match asked.run {
        Some(run_id) => match uploads::get(tx, run_id).await? {
            Some(upload) => UploadNo(upload.number).ids(),
            None => return Ok(vec![]),
        },
        None => 0..i64::MAX,
    };
    let mut words: Vec<i64> = Vec::new();
    if let Some(word) = &asked.word {
        words.extend(words::words_of(word).map(|word| i64::from(words::hash(word).cast_signed())));
        if words.is_empty() {
            return Err(Error::Input { what: "a word to look for", why: "it has neither letters nor digits" });
        }
    }
    let terms = Terms { asked, conf, ids, words };
    let mut results = Results::default();
    if asked.stanza.is_some() {
        by_stanza(tx, &terms, &mut results).await?;
    } else if asked.word.is_some() {
        by_word(tx, &terms, &mut results).await?;
    } else if asked.run.is_some() {
        by_run(tx, &terms, &mut results).await?;
    } else if asked.key.is_some() || asked.value.is_some() {
        let found = by_setting::find(tx, &terms).await?;
        results.add(tx, &terms, found).await?;
    } else {
        by_file(tx, &terms, &mut results).await?;
    }
    Ok(results.hits)
}

/// The statements of a search, each with what goes into it as literals of PostgreSQL.
pub(crate) fn statements(dialect: Dialect, asked: &Search) -> Vec<(String, Vec<String>)> {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let bound = || ["0".to_owned(), i64::MAX.to_string()];
    let ranges = || {
        let number = |number: i64| format!("ARRAY[{number}]::bigint[]");
        let none = ["bigint", "text", "text", "text", "text"].map(|kind| format!("ARRAY[NULL]::{kind}[]"));
        let range = [number(1 << 32), number((1 << 32) + RANGE)].into_iter().chain(none);
        (results::IN_RANGES.render(dialect).to_owned(), range.collect())
    };
    let rendered = |sql: &Sql| sql.render(dialect).to_owned();
    if let Some(stanza) = &asked.stanza {
        let params = [vec![literal(stanza)], bound().to_vec(), vec!["256".to_owned()]].concat();
        vec![(rendered(&by_range::STANZAS), params), ranges()]
    } else if let Some(word) = &asked.word {
        let words: Vec<String> =
            words::words_of(word).map(|word| words::hash(word).cast_signed().to_string()).collect();
        let sql = render(&by_range::of_words(words.len()), dialect);
        vec![(sql, [words, bound().to_vec()].concat()), ranges()]
    } else if asked.run.is_some() {
        vec![ranges()]
    } else if asked.key.is_some() || asked.value.is_some() {
        let heads = by_setting::heads(asked);
        let (sql, params) = by_setting::of_finished(asked, asked.conf.as_ref().map(|_| 1), &heads);
        let params = params.into_iter().map(|param| match param {
            Param::Int(number) => number.to_string(),
            Param::Text(text) => literal(text),
            Param::Null | Param::Id(_) | Param::Bytes(_) => "NULL".to_owned(),
        });
        vec![(render(&sql, dialect), params.collect())]
    } else {
        vec![(rendered(&by_range::FILES), [vec!["1".to_owned()], bound().to_vec()].concat()), ranges()]
    }
}
