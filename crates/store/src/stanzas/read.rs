//! Reads what was parsed, page by page: memory stays the same however much an upload holds.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use redrive_core::id::RunId;

use super::batch::FileFault;
use super::id::{UploadNo, short_name};
use crate::db::{Column, Cursor, Kind, Lookup, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::uploads;

/// The most settings of one page. A stanza with more comes in parts.
const SETTINGS: i64 = 5_000;

/// A file of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    pub path: String,
    pub conf: String,
    pub layer: String,
    pub bytes: u64,
    pub stanzas: u64,
    pub settings: u64,
    pub fault: Option<FileFault>,
    id: i64,
    first_stanza: i64,
}

/// How far a page came: to a stanza, or to a setting inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StanzaPlace {
    stanza: i64,
    /// The first setting of the stanza that is left to the next page.
    next_setting: Option<i64>,
}

/// A stanza with its settings in the order of the file, or a part of one that has very many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StanzaRow {
    pub file: Arc<FileRow>,
    /// None for the settings before the first header.
    pub name: Option<String>,
    pub line: u32,
    pub last_line: u32,
    pub settings: Vec<SettingRow>,
    /// Whether its first settings were in the page before.
    pub is_continued: bool,
    pub place: StanzaPlace,
}

impl StanzaRow {
    /// Tells whether more of its settings come with the next page.
    pub fn continues(&self) -> bool {
        self.place.next_setting.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    pub key: String,
    pub value: String,
    pub line: u32,
}

/// Which files are asked for.
#[derive(Debug, Clone)]
pub struct FilePage {
    pub run_id: RunId,
    /// The last one seen.
    pub after: Option<FileRow>,
    pub limit: u32,
}

/// Which stanzas are asked for.
#[derive(Debug, Clone)]
pub struct StanzaPage {
    pub run_id: RunId,
    /// Only those of this file.
    pub file: Option<FileRow>,
    /// Only those of this name.
    pub name: Option<String>,
    /// How far the page before came.
    pub after: Option<StanzaPlace>,
    pub limit: u32,
}

impl View {
    /// A page of the files of an upload, in the order of the archive.
    pub async fn files(&self, asked: FilePage) -> Result<Vec<FileRow>> {
        read!(self.read_by_index, "files", |tx, asked| files(tx, &asked))
    }

    /// The files of an upload that count as parse errors, in the order of the archive.
    pub async fn faulty_files(&self, run_id: RunId, limit: u32) -> Result<Vec<FileRow>> {
        read!(self.read_by_index, "faulty files", |tx, run_id, limit| faulty_files(tx, *run_id, *limit))
    }

    /// A page of stanzas, in the order of the files. It may be shorter than the limit; only an empty one is the end.
    pub async fn stanzas(&self, asked: StanzaPage) -> Result<Vec<StanzaRow>> {
        read!(self.read_by_index, "stanzas", |tx, asked| stanzas(tx, &asked))
    }
}

async fn number_of(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<UploadNo>> {
    Ok(uploads::get(tx, run_id).await?.map(|upload| UploadNo(upload.number)))
}

macro_rules! file_columns {
    () => {
        "f.file_id, f.first_stanza, f.bytes, f.stanzas, f.settings, c.name, f.layer, f.path, f.fault,
         f.fault_line, f.fault_count, f.fault_message"
    };
}

fn read_file(row: &mut Cursor<'_>) -> Result<FileRow> {
    Ok(FileRow {
        id: row.int()?,
        first_stanza: row.int()?,
        bytes: row.count()?,
        stanzas: row.count()?,
        settings: row.count()?,
        conf: row.text()?,
        layer: row.text()?,
        path: row.text()?,
        fault: match (row.opt_text()?, row.opt_int()?, row.opt_int()?, row.opt_text()?) {
            (Some(kind), line, count, message) => {
                let (line, count) = (small(line)?, small(count)?);
                Some(FileFault { kind, line, count, message: message.unwrap_or_default() })
            }
            (None, ..) => None,
        },
    })
}

fn small(number: Option<i64>) -> Result<u32> {
    u32::try_from(number.unwrap_or(0)).map_err(|error| Error::row("files", error))
}

static FILES: Sql = Sql::new(concat!(
    "/* stanzas::files */
     SELECT ",
    file_columns!(),
    "
     FROM files f
     CROSS JOIN confs c
     WHERE c.conf_id = f.conf_id
       AND f.file_id >= CAST(?1 AS BIGINT)
       AND f.file_id < CAST(?2 AS BIGINT)
     ORDER BY f.file_id
     LIMIT CAST(?3 AS BIGINT)"
));

async fn files(tx: &mut Tx<'_>, asked: &FilePage) -> Result<Vec<FileRow>> {
    let Some(upload) = number_of(tx, asked.run_id).await? else { return Ok(vec![]) };
    let ids = upload.ids();
    let first = asked.after.as_ref().map_or(ids.start, |file| file.id + 1);
    let params = [first.into(), ids.end.into(), i64::from(asked.limit).into()];
    tx.rows(&FILES, &params, |row| read_file(&mut row.cursor())).await
}

static FAULTY: Sql = Sql::new(concat!(
    "/* stanzas::faulty_files */
     SELECT ",
    file_columns!(),
    "
     FROM files f
     CROSS JOIN confs c
     WHERE c.conf_id = f.conf_id
       AND f.file_id >= CAST(?1 AS BIGINT)
       AND f.file_id < CAST(?2 AS BIGINT)
       AND f.fault IS NOT NULL
     ORDER BY f.file_id
     LIMIT CAST(?3 AS BIGINT)"
));

async fn faulty_files(tx: &mut Tx<'_>, run_id: RunId, limit: u32) -> Result<Vec<FileRow>> {
    let Some(upload) = number_of(tx, run_id).await? else { return Ok(vec![]) };
    let ids = upload.ids();
    let params = [ids.start.into(), ids.end.into(), i64::from(limit).into()];
    tx.rows(&FAULTY, &params, |row| read_file(&mut row.cursor())).await
}

static FILES_BY_ID: Lookup = Lookup::new(
    concat!(
        "/* stanzas::files_by_id */
     SELECT ",
        file_columns!(),
        "
     FROM files f
     CROSS JOIN confs c
     WHERE c.conf_id = f.conf_id
       AND f.file_id = @file_id"
    ),
    &[("file_id", Kind::Int)],
);

/// Files by their ids.
pub(super) async fn files_by_id(tx: &mut Tx<'_>, ids: &BTreeSet<i64>) -> Result<HashMap<i64, Arc<FileRow>>> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let columns = [Column::ints(&ids, |id| Some(*id))];
    let found = tx.lookup(&FILES_BY_ID, &columns, |mut row| read_file(&mut row)).await?;
    Ok(found.into_iter().map(|(_, file)| (file.id, Arc::new(file))).collect())
}

/// A stanza without its settings and its file.
#[derive(Debug)]
pub(super) struct BareStanza {
    pub(super) id: i64,
    pub(super) file_id: i64,
    pub(super) settings: Range<i64>,
    pub(super) name: Option<String>,
    lines: (u32, u32),
    is_continued: bool,
    next_setting: Option<i64>,
}

macro_rules! stanza_columns {
    () => {
        "s.stanza_id, s.file_id, s.first_setting, s.settings, s.line, s.last_line, s.name, s.long_name"
    };
}
pub(super) use stanza_columns;

pub(super) fn read_stanza(row: &mut Cursor<'_>) -> Result<BareStanza> {
    let (id, file_id, first, count) = (row.int()?, row.int()?, row.int()?, row.int()?);
    let lines = (row.count()?, row.count()?);
    let (name, long_name) = (row.opt_text()?, row.opt_text()?);
    let (settings, name) = (first..first + count, long_name.or(name));
    Ok(BareStanza { id, file_id, settings, name, lines, is_continued: false, next_setting: None })
}

static IN_RANGE: Sql = Sql::new(concat!(
    "/* stanzas::in_range */
     SELECT ",
    stanza_columns!(),
    "
     FROM stanzas s
     WHERE s.stanza_id >= CAST(?1 AS BIGINT)
       AND s.stanza_id < CAST(?2 AS BIGINT)
     ORDER BY s.stanza_id
     LIMIT CAST(?3 AS BIGINT)"
));
/// Files stand in the order of their stanzas, so that the index gives them in order too.
static OF_NAME: Sql = Sql::new(concat!(
    "/* stanzas::of_name */
     SELECT ",
    stanza_columns!(),
    "
     FROM stanzas s
     WHERE s.name = ?1
       AND s.file_id >= CAST(?2 AS BIGINT)
       AND s.file_id < CAST(?3 AS BIGINT)
       AND s.stanza_id >= CAST(?4 AS BIGINT)
     ORDER BY s.file_id
     LIMIT CAST(?5 AS BIGINT)"
));

async fn stanzas(tx: &mut Tx<'_>, asked: &StanzaPage) -> Result<Vec<StanzaRow>> {
    let Some(upload) = number_of(tx, asked.run_id).await? else { return Ok(vec![]) };
    let limit = i64::from(asked.limit);
    let range = match &asked.file {
        Some(file) => file.first_stanza..file.first_stanza + i64::try_from(file.stanzas).unwrap_or(0),
        None => upload.ids(),
    };
    let first = asked.after.map_or(range.start, |after| match after.next_setting {
        Some(_) => after.stanza,
        None => after.stanza + 1,
    });
    let mut page = match &asked.name {
        None => {
            let params = [first.into(), range.end.into(), limit.into()];
            tx.rows(&IN_RANGE, &params, |row| read_stanza(&mut row.cursor())).await?
        }
        Some(name) => {
            let ids = asked.file.as_ref().map_or(upload.ids(), |file| file.id..file.id + 1);
            let short = short_name(name);
            let name = short.as_deref().unwrap_or(name);
            let params = [name.into(), ids.start.into(), ids.end.into(), first.into(), limit.into()];
            tx.rows(&OF_NAME, &params, |row| read_stanza(&mut row.cursor())).await?
        }
    };
    if let (Some(stanza), Some(next)) = (page.first_mut(), asked.after.and_then(|after| after.next_setting)) {
        (stanza.settings.start, stanza.is_continued) = (next, true);
    }
    cut_to_settings(&mut page);
    with_settings(tx, page).await
}

/// Leaves the stanzas at the end of a page to the next one when there are too many settings, and of the first stanza the
/// settings that are too many by themselves.
fn cut_to_settings(page: &mut Vec<BareStanza>) {
    let mut settings = 0;
    let fits = page.iter().take_while(|stanza| {
        settings += stanza.settings.end - stanza.settings.start;
        settings <= SETTINGS
    });
    let fits = fits.count();
    page.truncate(fits.max(1));
    if let (0, Some(stanza)) = (fits, page.first_mut()) {
        stanza.settings.end = stanza.settings.start + SETTINGS;
        stanza.next_setting = Some(stanza.settings.end);
    }
}

static SETTINGS_OF_RANGE: Lookup = Lookup::new(
    "/* stanzas::settings_of_range */
     SELECT stanza_id, key, value, line
     FROM settings
     WHERE setting_id >= @first
       AND setting_id < @last
     ORDER BY setting_id",
    &[("first", Kind::Int), ("last", Kind::Int)],
);

async fn with_settings(tx: &mut Tx<'_>, page: Vec<BareStanza>) -> Result<Vec<StanzaRow>> {
    let files = files_by_id(tx, &page.iter().map(|stanza| stanza.file_id).collect()).await?;
    let ranges = joined(page.iter().map(|stanza| stanza.settings.clone()));
    let columns = [Column::ints(&ranges, |range| Some(range.start)), Column::ints(&ranges, |range| Some(range.end))];
    let found = tx.lookup(&SETTINGS_OF_RANGE, &columns, |mut row| {
        let stanza = row.int()?;
        Ok((stanza, SettingRow { key: row.text()?, value: row.text()?, line: row.count()? }))
    });
    let mut settings = found.await?.into_iter().map(|(_, found)| found).peekable();
    let mut made = Vec::with_capacity(page.len());
    for stanza in page {
        let file = files.get(&stanza.file_id).cloned();
        let file = file.ok_or_else(|| Error::row("stanzas", format!("{} has no file", stanza.id)))?;
        let own = std::iter::from_fn(|| settings.next_if(|(of, _)| *of == stanza.id)).map(|(_, setting)| setting);
        made.push(StanzaRow {
            file,
            name: stanza.name,
            line: stanza.lines.0,
            last_line: stanza.lines.1,
            settings: own.collect(),
            is_continued: stanza.is_continued,
            place: StanzaPlace { stanza: stanza.id, next_setting: stanza.next_setting },
        });
    }
    Ok(made)
}

/// Ranges that follow each other, as one.
fn joined(ranges: impl Iterator<Item = Range<i64>>) -> Vec<Range<i64>> {
    let mut all: Vec<Range<i64>> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(_) | None => all.push(range),
        }
    }
    all
}
