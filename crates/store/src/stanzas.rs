//! What ingestion parsed: files, their stanzas, and the settings in them. A retry adds only what is not there yet.

use redrive_core::id::RunId;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::db::{Batch, Column, Effect, Kind, Sql, Tx};
use crate::error::Result;
use crate::ids::Ids;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStanza {
    pub file_id: Uuid,
    /// None for the keys before the file's first header.
    pub name: Option<String>,
    pub source_path: String,
    pub line: u32,
    pub layer: Option<String>,
    pub entries: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stanza {
    pub file: String,
    pub source_path: String,
    pub name: Option<String>,
    pub line: u32,
    pub layer: Option<String>,
    pub entries: Vec<(String, String)>,
}

static INSERT_FILE: Sql = Sql::new(
    "/* stanzas::file */ INSERT INTO files (file_id, run_id, path, bytes, sha256) VALUES (?1, ?2, ?3, ?4, ?5) \
     ON CONFLICT (run_id, path) DO NOTHING",
);
static FILE: Sql = Sql::new("/* stanzas::file_id */ SELECT file_id FROM files WHERE run_id = ?1 AND path = ?2");

/// The id of a run's file, which is the same on every retry.
pub(crate) async fn file(tx: &mut Tx<'_>, run_id: RunId, new: &NewFile, id: Uuid) -> Result<Uuid> {
    let bytes = crate::partition_row::int(new.bytes);
    let params = [id.into(), run_id.uuid().into(), (&new.path).into(), bytes.into(), (&new.sha256).into()];
    if tx.execute(&INSERT_FILE, &params).await? > 0 {
        return Ok(id);
    }
    let found = tx.row(&FILE, &[run_id.uuid().into(), (&new.path).into()], |row| row.id(0)).await?;
    Ok(found.unwrap_or(id))
}

static INSERT: Batch = Batch::new(
    "/* stanzas::insert */ INSERT INTO stanzas (stanza_id, run_id, file_id, name, source_path, line, layer, digest) \
     {values @stanza_id, @run_id, @file_id, @name, @source_path, @line, @layer, @digest} ON CONFLICT DO NOTHING",
    &[
        ("stanza_id", Kind::Id),
        ("run_id", Kind::Id),
        ("file_id", Kind::Id),
        ("name", Kind::Text),
        ("source_path", Kind::Text),
        ("line", Kind::Int),
        ("layer", Kind::Text),
        ("digest", Kind::Bytes),
    ],
    Effect::Inserted(&["stanza_id"]),
);
static INSERT_SETTINGS: Batch = Batch::new(
    "/* stanzas::settings */ INSERT INTO settings (stanza_id, position, key, value) \
     {values @stanza_id, @position, @key, @value}",
    &[("stanza_id", Kind::Id), ("position", Kind::Int), ("key", Kind::Text), ("value", Kind::Text)],
    Effect::All,
);

/// Adds stanzas with their settings; one that is there already is left as it is. Gives how many were new.
pub(crate) async fn insert(
    tx: &mut Tx<'_>,
    run_id: RunId,
    stanzas: &[NewStanza],
    ids: &Ids,
    now: redrive_core::time::Timestamp,
) -> Result<u64> {
    let rows: Vec<(Uuid, NewStanza, [u8; 32])> = stanzas
        .iter()
        .map(|stanza| {
            let clean = cleaned(stanza);
            let digest = digest(&clean);
            (ids.run(now).uuid(), clean, digest)
        })
        .collect();
    let columns = [
        Column::ids(&rows, |(id, ..)| Some(*id)),
        Column::ids(&rows, |_| Some(run_id.uuid())),
        Column::ids(&rows, |(_, stanza, _)| Some(stanza.file_id)),
        Column::texts(&rows, |(_, stanza, _)| stanza.name.as_deref()),
        Column::texts(&rows, |(_, stanza, _)| Some(stanza.source_path.as_str())),
        Column::ints(&rows, |(_, stanza, _)| Some(i64::from(stanza.line))),
        Column::texts(&rows, |(_, stanza, _)| stanza.layer.as_deref()),
        Column::bytes(&rows, |(.., digest)| Some(digest.as_slice())),
    ];
    let new = tx.batch(&INSERT, &columns).await?;
    let mut settings: Vec<(Uuid, i64, &str, &str)> = Vec::new();
    let mut count = 0;
    for ((id, stanza, _), _) in rows.iter().zip(&new).filter(|(_, new)| **new) {
        count += 1;
        let entries = (0i64..).zip(&stanza.entries);
        settings.extend(entries.map(|(position, (key, value))| (*id, position, key.as_str(), value.as_str())));
    }
    let columns = [
        Column::ids(&settings, |(id, ..)| Some(*id)),
        Column::ints(&settings, |(_, position, ..)| Some(*position)),
        Column::texts(&settings, |(_, _, key, _)| Some(key)),
        Column::texts(&settings, |(.., value)| Some(value)),
    ];
    tx.batch(&INSERT_SETTINGS, &columns).await?;
    Ok(count)
}

/// A stanza without NUL, which PostgreSQL text cannot hold.
fn cleaned(stanza: &NewStanza) -> NewStanza {
    let clean = |text: &String| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.clone() };
    NewStanza {
        file_id: stanza.file_id,
        name: stanza.name.as_ref().map(clean),
        source_path: clean(&stanza.source_path),
        line: stanza.line,
        layer: stanza.layer.as_ref().map(clean),
        entries: stanza.entries.iter().map(|(key, value)| (clean(key), clean(value))).collect(),
    }
}

/// What makes a stanza the same on every retry, within its run and file.
fn digest(stanza: &NewStanza) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update([u8::from(stanza.name.is_some())]);
    let name = stanza.name.as_deref().unwrap_or_default();
    digest.update(u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
    digest.update(name);
    digest.update(&stanza.source_path);
    digest.finalize().into()
}

static OF_RUN: Sql = Sql::new(
    "/* stanzas::of_run */ SELECT s.stanza_id, f.path, s.source_path, s.name, s.line, s.layer FROM stanzas s \
     JOIN files f ON f.file_id = s.file_id WHERE s.run_id = ?1 ORDER BY f.path, s.line, s.stanza_id",
);
static SETTINGS: Sql =
    Sql::new("/* stanzas::settings_of */ SELECT key, value FROM settings WHERE stanza_id = ?1 ORDER BY position");

/// A run's stanzas in file order.
pub(crate) async fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<Stanza>> {
    let mut found = tx
        .rows(&OF_RUN, &[run_id.uuid().into()], |row| {
            let stanza = Stanza {
                file: row.text(1)?,
                source_path: row.text(2)?,
                name: row.opt_text(3)?,
                line: u32::try_from(row.int(4)?).unwrap_or(u32::MAX),
                layer: row.opt_text(5)?,
                entries: vec![],
            };
            Ok((row.id(0)?, stanza))
        })
        .await?;
    for (id, stanza) in &mut found {
        stanza.entries = tx.rows(&SETTINGS, &[(*id).into()], |row| Ok((row.text(0)?, row.text(1)?))).await?;
    }
    Ok(found.into_iter().map(|(_, stanza)| stanza).collect())
}
