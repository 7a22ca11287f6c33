//! Searches by a stanza's name, a word, a file's name or a run: each gives ranges of settings, which are read newest first.

use std::fmt::Write as _;
use std::ops::Range;

use super::results::Results;
use super::{RANGE, RANGES, Terms};
use crate::db::{Param, Sql, Tx};
use crate::error::Result;
use crate::stanzas::id::{settings_of_block, short_name};
use crate::stanzas::read::{BareStanza, read_stanza, stanza_columns};

pub(super) static STANZAS: Sql = Sql::new(concat!(
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

pub(super) async fn by_stanza(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
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
pub(super) fn of_words(words: usize) -> String {
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

pub(super) async fn by_word(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
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

pub(super) static FILES: Sql = Sql::new(
    "/* search::files */
     SELECT file_id, first_setting, settings
     FROM files
     WHERE conf_id = CAST(?1 AS BIGINT)
       AND file_id >= CAST(?2 AS BIGINT)
       AND file_id < CAST(?3 AS BIGINT)
     ORDER BY file_id DESC
     LIMIT 32",
);

pub(super) async fn by_file(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
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
pub(super) async fn by_run(tx: &mut Tx<'_>, terms: &Terms<'_>, results: &mut Results) -> Result<()> {
    let params = [terms.ids.start.into(), terms.ids.end.into()];
    let last = tx.row(&LAST_SETTING, &params, |row| row.opt_int(0)).await?.flatten();
    let Some(end) = last.map(|last| last + 1) else { return Ok(()) };
    let starts = (0..).map(|nth| terms.ids.start + nth * RANGE).take_while(|start| *start < end);
    let ranges: Vec<Range<i64>> = starts.map(|start| start..(start + RANGE).min(end)).collect();
    results.read(tx, terms, ranges).await.map(drop)
}
