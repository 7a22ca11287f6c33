//! Uploads and what is in them.

use redrive_conf::{Change, EffectiveStanza, Finding};
use redrive_core::id::RunId;
use redrive_core::run::{Run, Work, label};
use redrive_core::time::Timestamp;
use redrive_store::{Hit, StanzaRow};
use schemars::JsonSchema;
use serde::Serialize;

/// An upload, as its sender hears of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UploadShape {
    pub id: RunId,
    pub file: String,
    pub status: &'static str,
    /// An earlier run of the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<RunId>,
}

impl UploadShape {
    pub fn new(run: &Run, same_as: Option<RunId>) -> Self {
        Self { id: run.run_id, file: name_of(run).to_owned(), status: label(run), same_as }
    }
}

/// An upload in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UploadRunShape {
    pub id: RunId,
    pub file: String,
    pub status: &'static str,
    pub retry_count: u32,
    pub next_retry_at: Option<Timestamp>,
    pub error_message: Option<String>,
    pub submitted_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

impl From<&Run> for UploadRunShape {
    fn from(run: &Run) -> Self {
        Self {
            id: run.run_id,
            file: name_of(run).to_owned(),
            status: label(run),
            retry_count: run.retry_count,
            next_retry_at: run.next_retry_at,
            error_message: run.error_message.clone(),
            submitted_at: run.submitted_at,
            completed_at: run.completed_at,
        }
    }
}

fn name_of(run: &Run) -> &str {
    match &run.work {
        Work::Ingest { upload } => upload,
        Work::Extract(_) | Work::Process { .. } => "",
    }
}

/// A stanza with its settings in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StanzaShape {
    pub file: String,
    pub source_path: String,
    /// None for the settings before the first header.
    pub name: Option<String>,
    pub line: u32,
    pub layer: String,
    pub entries: Vec<(String, String)>,
}

impl From<StanzaRow> for StanzaShape {
    fn from(row: StanzaRow) -> Self {
        Self {
            file: row.file.path.clone(),
            source_path: row.file.path.clone(),
            name: row.name,
            line: row.line,
            layer: row.file.layer.clone(),
            entries: row.settings.into_iter().map(|setting| (setting.key, setting.value)).collect(),
        }
    }
}

/// A stanza of the configuration that takes effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectiveShape {
    pub conf: String,
    pub name: String,
    pub entries: Vec<EffectiveEntry>,
}

/// A value that takes effect, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectiveEntry {
    pub key: String,
    pub value: String,
    pub source_path: String,
    pub line: u32,
}

impl EffectiveShape {
    pub fn new(conf: &str, stanza: &EffectiveStanza<'_>) -> Self {
        let entry = |(key, value): (&str, &redrive_conf::Value)| EffectiveEntry {
            key: key.to_owned(),
            value: value.value.clone(),
            source_path: value.origin.path.to_string(),
            line: value.origin.line,
        };
        let entries = stanza.settings().into_iter().map(entry).collect();
        Self { conf: conf.to_owned(), name: stanza.name.to_owned(), entries }
    }
}

/// One difference between two uploads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DifferenceShape {
    pub source_path: String,
    pub change: DifferenceKind,
    pub stanza: Option<String>,
    pub key: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub old_line: Option<u32>,
    pub new_line: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    StanzaAdded,
    StanzaRemoved,
    SettingAdded,
    SettingRemoved,
    SettingChanged,
}

impl DifferenceShape {
    pub(crate) fn new(path: &str, change: &Change<'_>) -> Self {
        let (kind, stanza, key, old, new) = match *change {
            Change::StanzaAdded { stanza } => (DifferenceKind::StanzaAdded, stanza, None, None, None),
            Change::StanzaRemoved { stanza } => (DifferenceKind::StanzaRemoved, stanza, None, None, None),
            Change::SettingAdded { stanza, key, new } => {
                (DifferenceKind::SettingAdded, stanza, Some(key), None, Some(new))
            }
            Change::SettingRemoved { stanza, key, old } => {
                (DifferenceKind::SettingRemoved, stanza, Some(key), Some(old), None)
            }
            Change::SettingChanged { stanza, key, old, new } => {
                (DifferenceKind::SettingChanged, stanza, Some(key), Some(old), Some(new))
            }
        };
        Self {
            source_path: path.to_owned(),
            change: kind,
            stanza: stanza.map(str::to_owned),
            key: key.map(str::to_owned),
            old: old.map(|line| line.value.clone()),
            new: new.map(|line| line.value.clone()),
            old_line: old.map(|line| line.line),
            new_line: new.map(|line| line.line),
        }
    }
}

/// A setting that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HitShape {
    pub run_id: RunId,
    pub upload: String,
    pub source_path: String,
    pub layer: String,
    pub stanza: Option<String>,
    pub key: String,
    pub value: String,
    pub line: u32,
}

impl From<Hit> for HitShape {
    fn from(hit: Hit) -> Self {
        Self {
            run_id: hit.run_id,
            upload: hit.upload,
            source_path: hit.file.path.clone(),
            layer: hit.file.layer.clone(),
            stanza: hit.stanza,
            key: hit.key,
            value: hit.value,
            line: hit.line,
        }
    }
}

/// What a strict reader objects to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingShape {
    /// The upload or the file that was looked at.
    pub upload: String,
    pub source_path: String,
    pub line: u32,
    pub kind: &'static str,
    pub message: String,
}

impl FindingShape {
    /// Of a link that gives no configuration.
    pub fn of_link(upload: &str, path: &str, target: &str, why: &str) -> Self {
        Self {
            upload: upload.to_owned(),
            source_path: path.to_owned(),
            line: 1,
            kind: "link",
            message: format!("the link to `{target}` {why}"),
        }
    }

    pub fn new(upload: &str, path: &str, finding: &Finding) -> Self {
        Self {
            upload: upload.to_owned(),
            source_path: path.to_owned(),
            line: finding.lines.first,
            kind: finding.kind.as_str(),
            message: finding.to_string(),
        }
    }
}
