//! Searches the settings of all finished uploads.
//!
//! The most telling condition chooses where to look: a stanza's name, a word, a key or a value by their indexes, or else
//! the files of a name. Stanzas, words and files give ranges of settings, which are read newest first until enough is
//! found. A key or a value is one statement over its own index; inside one run its own settings are read instead, so that what
//! other runs hold costs nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use redrive_core::id::RunId;

use super::id::{UploadNo, settings_of_block, short_name};
use super::read::{BareStanza, FileRow, files_by_id, read_stanza, stanza_columns};
use super::words;
use crate::db::{Column, Cursor, Dialect, Kind, Lookup, Param, Sql, Tx, render};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::uploads;

/// How many characters of a key and of a value are in their index.
const HEAD: usize = 64;
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
    let mut results = Results { hits: Vec::new(), known: HashMap::new() };
    if asked.stanza.is_some() {
        by_stanza(tx, &terms, &mut results).await?;
    } else if asked.word.is_some() {
        by_word(tx, &terms, &mut results).await?;
    } else if asked.run.is_some() {
        by_run(tx, &terms, &mut results).await?;
    } else if asked.key.is_some() || asked.value.is_some() {
        let found = by_setting(tx, &terms).await?;
        results.add(tx, &terms, found).await?;
    } else {
        by_file(tx, &terms, &mut results).await?;
    }
    Ok(results.hits)
}

static STANZAS: Sql = Sql::new(concat!(
    "/* search::stanzas */
     SELECT ",
    stanza_columns!(),
    "
     FROM stanzas s
     WHERE s.name = ?1
       AND s.file_id >= CAST(?2 AS BIGINT)
       AND s.file_id < CAST(?3 AS BIGINT)
     ORDER BY s.file_id DESC
     LIMIT CAST(?4 AS BIGINT)"
));

async fn by_stanza(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
    let name = terms.asked.stanza.as_deref().unwrap_or_default();
    let short = short_name(name);
    let name = short.as_deref().unwrap_or(name);
    let mut before = terms.ids.end;
    loop {
        let params = [name.into(), terms.ids.start.into(), before.into(), 256.into()];
        let page: Vec<BareStanza> = tx.rows(&STANZAS, &params, |row| read_stanza(&mut row.cursor())).await?;
        let Some(last) = page.last() else { return Ok(()) };
        before = last.file_id;
        let ranges = page.into_iter().map(|stanza| stanza.settings).filter(|range| !range.is_empty()).collect();
        if results.read(tx, terms, ranges).await? {
            return Ok(());
        }
    }
}

/// Selects the blocks that hold all of some words: the words, then the bounds of the blocks.
fn of_words(words: usize) -> String {
    let mut sql = String::from(
        "/* search::words */
         SELECT w.block
         FROM words w
         WHERE w.word = CAST(?1 AS BIGINT)",
    );
    for nth in 2..=words {
        let _ = write!(
            sql,
            "
           AND EXISTS (SELECT 1 FROM words o WHERE o.word = CAST(?{nth} AS BIGINT) AND o.block = w.block)"
        );
    }
    let _ = write!(
        sql,
        "
           AND w.block >= CAST(?{} AS BIGINT)
           AND w.block < CAST(?{} AS BIGINT)
         ORDER BY w.block DESC
         LIMIT {RANGES}",
        words + 1,
        words + 2
    );
    sql
}

async fn by_word(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
    let sql = of_words(terms.words.len());
    let (first, mut before) = (terms.ids.start / RANGE, terms.ids.end / RANGE);
    loop {
        let mut params: Vec<Param<'_>> = terms.words.iter().map(|&word| word.into()).collect();
        params.extend([Param::from(first), before.into()]);
        let blocks = tx.built_rows(&sql, &params, |row| row.int(0)).await?;
        let Some(&last) = blocks.last() else { return Ok(()) };
        before = last;
        if results.read(tx, terms, blocks.into_iter().map(settings_of_block).collect()).await? {
            return Ok(());
        }
    }
}

static FILES: Sql = Sql::new(
    "/* search::files */
     SELECT file_id, first_setting, settings
     FROM files
     WHERE conf_id = CAST(?1 AS BIGINT)
       AND file_id >= CAST(?2 AS BIGINT)
       AND file_id < CAST(?3 AS BIGINT)
     ORDER BY file_id DESC
     LIMIT 32",
);

async fn by_file(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
    let mut before = terms.ids.end;
    loop {
        let params = [terms.conf.into(), terms.ids.start.into(), before.into()];
        let page = tx.rows(&FILES, &params, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?))).await?;
        let Some((last, ..)) = page.last() else { return Ok(()) };
        before = *last;
        let ranges = page.iter().flat_map(|&(_, first, count)| {
            let starts = (0..).map(move |nth| first + nth * RANGE).take_while(move |start| *start < first + count);
            starts.map(move |start| start..(start + RANGE).min(first + count))
        });
        if results.read(tx, terms, ranges.collect()).await? {
            return Ok(());
        }
    }
}

static LAST_SETTING: Sql = Sql::new(
    "/* search::last_setting */
     SELECT max(setting_id)
     FROM settings
     WHERE setting_id >= CAST(?1 AS BIGINT)
       AND setting_id < CAST(?2 AS BIGINT)",
);

/// Reads all settings of the run that is asked for.
async fn by_run(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
    let params = [terms.ids.start.into(), terms.ids.end.into()];
    let last = tx.row(&LAST_SETTING, &params, |row| row.opt_int(0)).await?.flatten();
    let Some(end) = last.map(|last| last + 1) else { return Ok(()) };
    let starts = (0..).map(|nth| terms.ids.start + nth * RANGE).take_while(|start| *start < end);
    let ranges: Vec<Range<i64>> = starts.map(|start| start..(start + RANGE).min(end)).collect();
    results.read(tx, terms, ranges).await.map(drop)
}

/// Selects settings by key, value or both. Gives the statement and what goes into it.
fn of_settings<'s>(asked: &'s Search, conf: Option<i64>, heads: &'s [String; 3]) -> (String, Vec<Param<'s>>) {
    let mut sql = String::from(
        "/* search::settings */
         SELECT s.setting_id, s.stanza_id, s.key, s.value, s.line
         FROM settings s
         WHERE ",
    );
    let mut params: Vec<Param<'s>> = Vec::new();
    let mut add = |text: &str, param: Param<'s>| {
        let and = if params.is_empty() { "" } else { "\n           AND " };
        params.push(param);
        let _ = write!(sql, "{and}{}", text.replace('#', &format!("?{}", params.len())));
    };
    let [key_head, value_head, next_head] = heads;
    if let Some(key) = &asked.key {
        add("substr(s.key, 1, 64) = #", key_head.into());
        add("s.key = #", key.into());
    }
    match &asked.value {
        Some(Match::Exact(value)) => {
            add("substr(s.value, 1, 64) = #", value_head.into());
            add("s.value = #", value.into());
        }
        Some(Match::Prefix(prefix)) if prefix.chars().count() >= HEAD => {
            add("substr(s.value, 1, 64) = #", value_head.into());
            add("{place_in}(s.value, #) = 1", prefix.into());
        }
        Some(Match::Prefix(_)) => {
            add("substr(s.value, 1, 64) >= #", value_head.into());
            if !next_head.is_empty() {
                add("substr(s.value, 1, 64) < #", next_head.into());
            }
        }
        None => {}
    }
    if let Some(conf) = conf {
        add("s.conf_id = CAST(# AS BIGINT)", conf.into());
    }
    (sql, params)
}

/// The beginnings that are in the index: of the key, of the value, and of what comes after all values with a prefix.
fn heads(asked: &Search) -> [String; 3] {
    let head = |text: &str| text.chars().take(HEAD).collect::<String>();
    let key = asked.key.as_deref().map(head).unwrap_or_default();
    let (value, next) = match &asked.value {
        Some(Match::Exact(value)) => (head(value), String::new()),
        Some(Match::Prefix(prefix)) => (head(prefix), after_prefix(&head(prefix))),
        None => Default::default(),
    };
    [key, value, next]
}

/// The first text after all that begin with `prefix`; empty where there is none.
fn after_prefix(prefix: &str) -> String {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        let next = (u32::from(last) + 1..=0x0010_ffff).find_map(char::from_u32);
        if let Some(next) = next {
            letters.push(next);
            return letters.into_iter().collect();
        }
    }
    String::new()
}

/// The whole statement by key and value, of finished runs only, in the order of its index.
fn of_finished<'s>(asked: &'s Search, conf: Option<i64>, heads: &'s [String; 3]) -> (String, Vec<Param<'s>>) {
    let (mut sql, params) = of_settings(asked, conf, heads);
    let by_key = if asked.key.is_some() { "substr(s.key, 1, 64), " } else { "" };
    let _ = write!(
        sql,
        "
           AND EXISTS (
               SELECT 1
               FROM uploads u
               JOIN run_ends e ON e.workload = 'ingest' AND e.category = '' AND e.run_id = u.run_id
               WHERE u.upload_no = s.setting_id / 4294967296
                 AND e.state = 'done'
           )
         ORDER BY {by_key}substr(s.value, 1, 64), s.conf_id, s.setting_id
         LIMIT {}",
        asked.limit
    );
    (sql, params)
}

async fn by_setting(tx: &mut Tx<'_>, terms: &Terms<'_>) -> Result<Vec<Found>> {
    let heads = heads(terms.asked);
    let (sql, params) = of_finished(terms.asked, terms.conf, &heads);
    tx.built_rows(&sql, &params, |row| read_found(&mut row.cursor())).await
}

/// The statements of a search, each with what goes into it as literals of PostgreSQL.
pub(crate) fn statements(dialect: Dialect, asked: &Search) -> Vec<(String, Vec<String>)> {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let bound = || ["0".to_owned(), i64::MAX.to_string()];
    let ranges = || {
        let number = |number: i64| format!("ARRAY[{number}]::bigint[]");
        let none = ["bigint", "text", "text", "text", "text"].map(|kind| format!("ARRAY[NULL]::{kind}[]"));
        let range = [number(1 << 32), number((1 << 32) + RANGE)].into_iter().chain(none);
        (IN_RANGES.render(dialect).to_owned(), range.collect())
    };
    let rendered = |sql: &Sql| sql.render(dialect).to_owned();
    if let Some(stanza) = &asked.stanza {
        let params = [vec![literal(stanza)], bound().to_vec(), vec!["256".to_owned()]].concat();
        vec![(rendered(&STANZAS), params), ranges()]
    } else if let Some(word) = &asked.word {
        let words: Vec<String> =
            words::words_of(word).map(|word| words::hash(word).cast_signed().to_string()).collect();
        let sql = render(&of_words(words.len()), dialect);
        vec![(sql, [words, bound().to_vec()].concat()), ranges()]
    } else if asked.run.is_some() {
        vec![ranges()]
    } else if asked.key.is_some() || asked.value.is_some() {
        let heads = heads(asked);
        let (sql, params) = of_finished(asked, asked.conf.as_ref().map(|_| 1), &heads);
        let params = params.into_iter().map(|param| match param {
            Param::Int(number) => number.to_string(),
            Param::Text(text) => literal(text),
            Param::Null | Param::Id(_) | Param::Bytes(_) => "NULL".to_owned(),
        });
        vec![(render(&sql, dialect), params.collect())]
    } else {
        vec![(rendered(&FILES), [vec!["1".to_owned()], bound().to_vec()].concat()), ranges()]
    }
}

static IN_RANGES: Lookup = Lookup::new(
    "/* search::in_ranges */
     SELECT setting_id, stanza_id, key, value, line
     FROM settings
     WHERE setting_id >= @first
       AND setting_id < @last
       AND (@conf IS NULL OR conf_id = @conf)
       AND (@key IS NULL OR key = @key)
       AND (@value IS NULL OR value = @value)
       AND (@prefix IS NULL OR {place_in}(value, @prefix) = 1)
       AND (@part IS NULL OR {place_in}(value, @part) > 0)
     ORDER BY setting_id",
    &[
        ("first", Kind::Int),
        ("last", Kind::Int),
        ("conf", Kind::Int),
        ("key", Kind::Text),
        ("value", Kind::Text),
        ("prefix", Kind::Text),
        ("part", Kind::Text),
    ],
);

/// What was found so far, and what is known of uploads.
struct Results {
    hits: Vec<Hit>,
    /// Which run an upload belongs to, and its name; none where it is not to be shown.
    known: HashMap<i64, Option<(RunId, String)>>,
}

impl Results {
    /// Reads ranges in turn; tells whether enough is found.
    async fn read(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, ranges: Vec<Range<i64>>) -> Result<bool> {
        let asked = terms.asked;
        let (value, prefix) = match &asked.value {
            Some(Match::Exact(value)) => (Some(value.as_str()), None),
            Some(Match::Prefix(prefix)) => (None, Some(prefix.as_str())),
            None => (None, None),
        };
        for ranges in ranges.chunks(RANGES) {
            let columns = [
                Column::ints(ranges, |range| Some(range.start)),
                Column::ints(ranges, |range| Some(range.end)),
                Column::ints(ranges, |_| terms.conf),
                Column::texts(ranges, |_| asked.key.as_deref()),
                Column::texts(ranges, |_| value),
                Column::texts(ranges, |_| prefix),
                Column::texts(ranges, |_| asked.word.as_deref()),
            ];
            let found = tx.lookup(&IN_RANGES, &columns, |mut row| read_found(&mut row)).await?;
            let found = found.into_iter().map(|(_, found)| found);
            let found = found.filter(|found| asked.word.as_ref().is_none_or(|word| words::holds(&found.value, word)));
            if self.add(tx, terms, found.collect()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds what may be shown of what was found; tells whether it is enough.
    async fn add(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, found: Vec<Found>) -> Result<bool> {
        let limit = usize::try_from(terms.asked.limit).unwrap_or(usize::MAX);
        self.know(tx, terms, &found).await?;
        let mut shown = Vec::new();
        for found in found {
            let Some((run_id, upload)) = self.known.get(&UploadNo::of(found.id).0).cloned().flatten() else { continue };
            shown.push((run_id, upload, found));
        }
        shown.truncate(limit.saturating_sub(self.hits.len()));
        let stanzas = stanzas_by_id(tx, &shown.iter().map(|(_, _, found)| found.stanza).collect()).await?;
        let files = files_by_id(tx, &stanzas.values().map(|stanza| stanza.file_id).collect()).await?;
        for (run_id, upload, Found { stanza, key, value, line, .. }) in shown {
            // The settings of a long stanza may be there before it.
            let Some(stanza) = stanzas.get(&stanza) else { continue };
            let lost = || Error::row("stanzas", format!("the file of stanza {} is not there", stanza.id));
            let file = files.get(&stanza.file_id).cloned().ok_or_else(lost)?;
            self.hits.push(Hit { run_id, upload, file, stanza: stanza.name.clone(), key, value, line });
        }
        Ok(self.hits.len() >= limit)
    }

    /// Looks up the uploads that are not known yet.
    async fn know(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, found: &[Found]) -> Result<()> {
        let numbers = found.iter().map(|found| UploadNo::of(found.id).0);
        let new: BTreeSet<i64> = numbers.filter(|number| !self.known.contains_key(number)).collect();
        let new: Vec<i64> = new.into_iter().collect();
        self.known.extend(new.iter().map(|number| (*number, None)));
        let columns = [Column::ints(&new, |number| Some(*number))];
        let made = |mut row: Cursor<'_>| Ok((RunId::from_uuid(row.id()?), row.opt_text()?, row.opt_text()?));
        for (nth, (run_id, name, state)) in tx.lookup(&RUNS, &columns, made).await? {
            if terms.asked.run.is_some() || state.as_deref() == Some("done") {
                self.known.insert(new[nth], Some((run_id, name.unwrap_or_default())));
            }
        }
        Ok(())
    }
}

static RUNS: Lookup = Lookup::new(
    "/* search::runs */
     SELECT s.run_id, s.subject, e.state
     FROM uploads u
     JOIN run_specs s ON s.run_id = u.run_id
     LEFT JOIN run_ends e ON e.workload = 'ingest' AND e.category = '' AND e.run_id = u.run_id
     WHERE u.upload_no = @upload_no",
    &[("upload_no", Kind::Int)],
);

static STANZAS_BY_ID: Lookup = Lookup::new(
    concat!(
        "/* search::stanzas_by_id */
     SELECT ",
        stanza_columns!(),
        "
     FROM stanzas s
     WHERE s.stanza_id = @stanza_id"
    ),
    &[("stanza_id", Kind::Int)],
);

async fn stanzas_by_id(tx: &mut Tx<'_>, ids: &BTreeSet<i64>) -> Result<HashMap<i64, BareStanza>> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let columns = [Column::ints(&ids, |id| Some(*id))];
    let found = tx.lookup(&STANZAS_BY_ID, &columns, |mut row| read_stanza(&mut row)).await?;
    Ok(found.into_iter().map(|(_, stanza)| (stanza.id, stanza)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_comes_after_all_that_begin_with_it() {
        assert_eq!(after_prefix("ab"), "ac");
        assert_eq!(after_prefix("a\u{10ffff}"), "b");
        assert_eq!(after_prefix("\u{d7ff}"), "\u{e000}");
        assert_eq!(after_prefix("\u{10ffff}"), "");
    }
}
