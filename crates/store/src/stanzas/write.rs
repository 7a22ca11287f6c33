//! Adds what was parsed. A stanza goes in together with its settings, or after them when they fill several batches: one that
//! is there is whole, and is left as it is.

use std::collections::BTreeSet;

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::Run;

use super::PARSER;
use super::batch::{ParsedBatch, Setting};
use super::forget;
use super::id::UploadNo;
use crate::db::{Batch, Column, Effect, Kind, Lookup, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{DataStore, transact};
use crate::uploads::Upload;

/// Keeps two transactions from giving out the same id of a name.
const NEW_CONF: i64 = 0x636f_6e66;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StanzasAdded {
    /// So many stanzas are new.
    New(usize),
    /// The run is no longer this worker's; nothing was added.
    Lost,
}

impl DataStore {
    /// Finds where the bytes of a claimed run lie, and makes its rows ready: those that another version of the parser
    /// made are taken away. None when the bytes never arrived.
    pub async fn begin_parsing(&self, run: &Run) -> Result<Option<Upload>> {
        let Some(upload) = self.view().upload(run.run_id).await? else { return Ok(None) };
        if upload.parser != Some(PARSER) && self.forget_parsed(run, &upload).await? {
            let (claim, number) = (Claim::of(run), upload.number);
            transact!(self.inner, "begin parsing", |tx| {
                if claim.is_held(tx).await? {
                    tx.execute(&SET_PARSER, &[PARSER.into(), number.into()]).await?;
                }
                Ok(())
            })?;
        }
        Ok(Some(upload))
    }

    /// Takes away what was added of an upload, in small transactions, for as long as the run is this worker's; tells whether it
    /// still is.
    pub async fn forget_parsed(&self, run: &Run, upload: &Upload) -> Result<bool> {
        let (upload, claim) = (UploadNo(upload.number), Claim::of(run));
        let mut next = Some(forget::Step::first(upload));
        while let Some(step) = next {
            let done = transact!(self.inner, "forget stanzas", |tx| {
                match claim.is_held(tx).await? {
                    true => Ok(Some(step.take(tx, upload).await?)),
                    false => Ok(None),
                }
            })?;
            match done {
                Some(step) => next = step,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds a batch in one transaction, while the run is this worker's.
    pub async fn add_parsed(&self, run: &Run, upload: &Upload, batch: ParsedBatch) -> Result<StanzasAdded> {
        let (upload, claim) = (UploadNo(upload.number), Claim::of(run));
        transact!(self.inner, "add stanzas", |tx, batch| {
            match claim.is_held(tx).await? {
                true => Ok(StanzasAdded::New(add(tx, upload, &batch).await?)),
                false => Ok(StanzasAdded::Lost),
            }
        })
    }
}

/// A worker's claim of an upload.
#[derive(Debug, Clone, Copy)]
struct Claim {
    run_id: RunId,
    task_id: Option<TaskId>,
}

impl Claim {
    fn of(run: &Run) -> Self {
        Self { run_id: run.run_id, task_id: run.task_id }
    }

    /// Tells whether the run is still the worker's; then it stays so until the transaction ends.
    async fn is_held(self, tx: &mut Tx<'_>) -> Result<bool> {
        let params = [self.run_id.uuid().into(), self.task_id.map(TaskId::uuid).into()];
        Ok(tx.row(&IS_HELD, &params, |row| row.int(0)).await?.is_some())
    }
}

static IS_HELD: Sql = Sql::new(
    "/* stanzas::is_held */
     SELECT CAST(1 AS BIGINT)
     FROM run_claims
     WHERE workload = 'ingest'
       AND category = ''
       AND run_id = ?1
       AND task_id = ?2
     {stay}",
);
static SET_PARSER: Sql = Sql::new(
    "/* stanzas::set_parser */
     UPDATE uploads
     SET parser = CAST(?1 AS BIGINT)
     WHERE upload_no = CAST(?2 AS BIGINT)",
);

async fn add(tx: &mut Tx<'_>, upload: UploadNo, batch: &ParsedBatch) -> Result<usize> {
    let confs = confs(tx, &batch.confs).await?;
    add_files(tx, upload, batch, &confs).await?;
    let new = add_stanzas(tx, upload, batch).await?;
    let added = new.iter().filter(|new| **new).count();
    // Of a stanza that comes with a later batch nothing is known yet: a try before this one may have left some of it.
    let is_missing = |setting: &&Setting| new.get(setting.stanza_here).copied().unwrap_or(true);
    let settings: Vec<&Setting> = batch.settings.iter().filter(is_missing).collect();
    if settings.is_empty() {
        return Ok(added);
    }
    add_settings(tx, upload, batch, &settings, &confs).await?;
    add_words(tx, upload, batch).await?;
    Ok(added)
}

static FIND_CONFS: Lookup = Lookup::new(
    "/* stanzas::find_confs */
     SELECT conf_id
     FROM confs
     WHERE name = @name",
    &[("name", Kind::Text)],
);
static LAST_CONF: Sql = Sql::new(
    "/* stanzas::last_conf */
     SELECT coalesce(max(conf_id), 0)
     FROM confs",
);
static INSERT_CONFS: Batch = Batch::new(
    "/* stanzas::insert_confs */
     INSERT INTO confs ({columns})
     {values}",
    &[("conf_id", Kind::Int), ("name", Kind::Text)],
    Effect::All,
);

/// Gives the ids of names, and makes those that are not there yet.
async fn confs(tx: &mut Tx<'_>, names: &[String]) -> Result<Vec<i64>> {
    let known = find_confs(tx, names).await?;
    let missing = |known: &[Option<i64>]| -> BTreeSet<String> {
        names.iter().zip(known).filter(|(_, id)| id.is_none()).map(|(name, _)| name.clone()).collect()
    };
    if missing(&known).is_empty() {
        return Ok(known.into_iter().flatten().collect());
    }
    tx.exclusive(NEW_CONF).await?;
    let known = find_confs(tx, names).await?;
    let missing: Vec<String> = missing(&known).into_iter().collect();
    let last = tx.row(&LAST_CONF, &[], |row| row.int(0)).await?.unwrap_or(0);
    let new: Vec<(i64, &String)> = (last + 1..).zip(&missing).collect();
    let columns = [Column::ints(&new, |(id, _)| Some(*id)), Column::texts(&new, |(_, name)| Some(name))];
    tx.batch(&INSERT_CONFS, &columns).await?;
    let ids: Vec<i64> = find_confs(tx, names).await?.into_iter().flatten().collect();
    if ids.len() != names.len() {
        return Err(Error::Statement { name: "add stanzas", why: "a name is neither new nor there".to_owned() });
    }
    Ok(ids)
}

async fn find_confs(tx: &mut Tx<'_>, names: &[String]) -> Result<Vec<Option<i64>>> {
    let mut ids = vec![None; names.len()];
    let columns = [Column::texts(names, |name| Some(name))];
    for (nth, id) in tx.lookup(&FIND_CONFS, &columns, |mut row| row.int()).await? {
        ids[nth] = Some(id);
    }
    Ok(ids)
}

static INSERT_FILES: Batch = Batch::new(
    "/* stanzas::insert_files */
     INSERT INTO files ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &[
        ("file_id", Kind::Int),
        ("conf_id", Kind::Int),
        ("bytes", Kind::Int),
        ("first_stanza", Kind::Int),
        ("stanzas", Kind::Int),
        ("first_setting", Kind::Int),
        ("settings", Kind::Int),
        ("layer", Kind::Text),
        ("path", Kind::Text),
        ("fault", Kind::Text),
        ("fault_line", Kind::Int),
        ("fault_count", Kind::Int),
        ("fault_message", Kind::Text),
    ],
    Effect::All,
);

async fn add_files(tx: &mut Tx<'_>, upload: UploadNo, batch: &ParsedBatch, confs: &[i64]) -> Result<()> {
    let files = &batch.files;
    let columns = [
        Column::ints(files, |file| Some(upload.id(file.at.file))),
        Column::ints(files, |file| Some(confs[file.conf])),
        Column::ints(files, |file| i64::try_from(file.bytes).ok()),
        Column::ints(files, |file| Some(upload.id(file.at.stanza))),
        Column::ints(files, |file| Some(file.stanzas.into())),
        Column::ints(files, |file| Some(upload.id(file.at.setting))),
        Column::ints(files, |file| Some(file.settings.into())),
        Column::texts(files, |file| Some(file.layer)),
        Column::texts(files, |file| Some(&file.path)),
        Column::texts(files, |file| file.fault.as_ref().map(|fault| fault.kind.as_str())),
        Column::ints(files, |file| file.fault.as_ref().map(|fault| fault.line.into())),
        Column::ints(files, |file| file.fault.as_ref().map(|fault| fault.count.into())),
        Column::texts(files, |file| file.fault.as_ref().map(|fault| fault.message.as_str())),
    ];
    tx.batch(&INSERT_FILES, &columns).await.map(drop)
}

pub(crate) static INSERT_STANZAS: Batch = Batch::new(
    "/* stanzas::insert */
     INSERT INTO stanzas ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &[
        ("stanza_id", Kind::Int),
        ("file_id", Kind::Int),
        ("first_setting", Kind::Int),
        ("settings", Kind::Int),
        ("line", Kind::Int),
        ("last_line", Kind::Int),
        ("name", Kind::Text),
        ("long_name", Kind::Text),
    ],
    Effect::Inserted(&["stanza_id"]),
);

async fn add_stanzas(tx: &mut Tx<'_>, upload: UploadNo, batch: &ParsedBatch) -> Result<Vec<bool>> {
    let stanzas = &batch.stanzas;
    let columns = [
        Column::ints(stanzas, |stanza| Some(upload.id(stanza.at.stanza))),
        Column::ints(stanzas, |stanza| Some(upload.id(stanza.at.file))),
        Column::ints(stanzas, |stanza| Some(upload.id(stanza.at.setting))),
        Column::ints(stanzas, |stanza| Some(stanza.settings.into())),
        Column::ints(stanzas, |stanza| Some(stanza.lines.0.into())),
        Column::ints(stanzas, |stanza| Some(stanza.lines.1.into())),
        Column::texts(stanzas, |stanza| {
            stanza.short_name.as_deref().or_else(|| stanza.name.as_ref().map(|name| batch.text(name)))
        }),
        Column::texts(stanzas, |stanza| {
            stanza.name.as_ref().filter(|_| stanza.short_name.is_some()).map(|name| batch.text(name))
        }),
    ];
    tx.batch(&INSERT_STANZAS, &columns).await
}

pub(crate) static INSERT_SETTINGS: Batch = Batch::new(
    "/* stanzas::insert_settings */
     INSERT INTO settings ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &[
        ("setting_id", Kind::Int),
        ("stanza_id", Kind::Int),
        ("conf_id", Kind::Int),
        ("line", Kind::Int),
        ("key", Kind::Text),
        ("value", Kind::Text),
    ],
    Effect::All,
);

async fn add_settings(
    tx: &mut Tx<'_>,
    upload: UploadNo,
    batch: &ParsedBatch,
    settings: &[&Setting],
    confs: &[i64],
) -> Result<()> {
    let columns = [
        Column::ints(settings, |setting| Some(upload.id(setting.place))),
        Column::ints(settings, |setting| Some(upload.id(setting.stanza))),
        Column::ints(settings, |setting| Some(confs[setting.conf])),
        Column::ints(settings, |setting| Some(setting.line.into())),
        Column::texts(settings, |setting| Some(batch.text(&setting.key))),
        Column::texts(settings, |setting| Some(batch.text(&setting.value))),
    ];
    tx.batch(&INSERT_SETTINGS, &columns).await.map(drop)
}

pub(crate) static INSERT_WORDS: Batch = Batch::new(
    "/* stanzas::insert_words */
     INSERT INTO words ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &[("word", Kind::Int), ("block", Kind::Int)],
    Effect::All,
);

/// How many words one statement adds: of a long text there may be millions.
const WORDS: usize = 20_000;

/// Adds the words of the batch; a block may have some of them from the batch before.
async fn add_words(tx: &mut Tx<'_>, upload: UploadNo, batch: &ParsedBatch) -> Result<()> {
    for words in batch.words().chunks(WORDS) {
        let columns = [
            Column::ints(words, |&word| Some(half(word >> 32).cast_signed().into())),
            Column::ints(words, |&word| Some(upload.block(half(word)))),
        ];
        tx.batch(&INSERT_WORDS, &columns).await?;
    }
    Ok(())
}

fn half(number: u64) -> u32 {
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}
