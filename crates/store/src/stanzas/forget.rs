//! Takes what was parsed of an upload away, in steps that are small transactions. A crash between two of them leaves rows that
//! the next try takes away, or adds again: stanzas go first, because one that is there counts as whole.

use super::id::{UploadNo, block_of_id};
use super::words;
use crate::db::{Batch, Column, Effect, Kind, Sql, Tx};
use crate::error::Result;

/// How many rows a step takes away, a multiple of a block of words.
const ROWS: i64 = 4096;

/// What a transaction takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    table: Table,
    from: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Stanzas,
    Settings,
    Files,
}

macro_rules! statements {
    ($first:ident, $delete:ident, $table:literal, $id:literal) => {
        static $first: Sql = Sql::new(concat!(
            "/* stanzas::first_of_",
            $table,
            " */
     SELECT min(",
            $id,
            ")
     FROM ",
            $table,
            "
     WHERE ",
            $id,
            " >= CAST(?1 AS BIGINT)
       AND ",
            $id,
            " < CAST(?2 AS BIGINT)"
        ));
        static $delete: Sql = Sql::new(concat!(
            "/* stanzas::forget_",
            $table,
            " */
     DELETE FROM ",
            $table,
            "
     WHERE ",
            $id,
            " >= CAST(?1 AS BIGINT)
       AND ",
            $id,
            " < CAST(?2 AS BIGINT)"
        ));
    };
}
statements!(FIRST_STANZA, FORGET_STANZAS, "stanzas", "stanza_id");
statements!(FIRST_SETTING, FORGET_SETTINGS, "settings", "setting_id");
statements!(FIRST_FILE, FORGET_FILES, "files", "file_id");

impl Step {
    pub(crate) fn first(upload: UploadNo) -> Self {
        Self { table: Table::Stanzas, from: upload.ids().start }
    }

    /// Takes some rows away; gives the step that follows, none when nothing is left.
    pub(crate) async fn take(self, tx: &mut Tx<'_>, upload: UploadNo) -> Result<Option<Self>> {
        let mut step = self;
        loop {
            if let Some(next) = step.delete(tx, upload).await? {
                return Ok(Some(next));
            }
            match step.table.next() {
                Some(table) => step = Self { table, ..Self::first(upload) },
                None => return Ok(None),
            }
        }
    }

    /// Takes rows of one table away; none when it has no more.
    async fn delete(self, tx: &mut Tx<'_>, upload: UploadNo) -> Result<Option<Self>> {
        let end = upload.ids().end;
        let (first, delete) = match self.table {
            Table::Stanzas => (&FIRST_STANZA, &FORGET_STANZAS),
            Table::Settings => (&FIRST_SETTING, &FORGET_SETTINGS),
            Table::Files => (&FIRST_FILE, &FORGET_FILES),
        };
        let found = tx.row(first, &[self.from.into(), end.into()], |row| row.opt_int(0)).await?.flatten();
        let Some(found) = found else { return Ok(None) };
        let (from, to) = (found / ROWS * ROWS, (found / ROWS + 1) * ROWS);
        if self.table == Table::Settings {
            forget_words(tx, from, to).await?;
        }
        tx.execute(delete, &[from.into(), to.into()]).await?;
        Ok(Some(Self { table: self.table, from: to }))
    }
}

impl Table {
    fn next(self) -> Option<Self> {
        match self {
            Self::Stanzas => Some(Self::Settings),
            Self::Settings => Some(Self::Files),
            Self::Files => None,
        }
    }
}

static VALUES: Sql = Sql::new(
    "/* stanzas::values */
     SELECT setting_id, value
     FROM settings
     WHERE setting_id >= CAST(?1 AS BIGINT)
       AND setting_id < CAST(?2 AS BIGINT)",
);
static FORGET_WORDS: Batch = Batch::new(
    "/* stanzas::forget_words */
     DELETE FROM words
     {using}
     WHERE words.word = @word
       AND words.block = @block",
    &[("word", Kind::Int), ("block", Kind::Int)],
    Effect::All,
);

/// Takes the words of whole blocks away: their values tell which those are.
async fn forget_words(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<()> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    tx.rows(&VALUES, &[from.into(), to.into()], |row| {
        let (block, value) = (block_of_id(row.int(0)?), row.text(1)?);
        all.extend(words::words_of(&value).map(|word| (i64::from(words::hash(word).cast_signed()), block)));
        Ok(())
    })
    .await?;
    all.sort_unstable();
    all.dedup();
    for words in all.chunks(20_000) {
        let columns = [Column::ints(words, |(word, _)| Some(*word)), Column::ints(words, |(_, block)| Some(*block))];
        tx.batch(&FORGET_WORDS, &columns).await?;
    }
    Ok(())
}
