//! The configuration that takes effect: the files of an upload merged, each value with the file and line it came from.

use redrive_conf::{Context, Effective, Exports, FileKind, Merge, Place};
use redrive_core::id::RunId;
use redrive_store::FileRow;

use super::pages::{FilePages, StanzaPages};
use crate::error::Result;
use crate::insight::Insight;

/// For whom, and of which files.
#[derive(Debug, Clone)]
pub struct EffectiveOptions {
    pub context: Context,
    /// The name of the files without their ending; none for all.
    pub conf: Option<String>,
}

/// The name of a configuration file without its ending.
pub fn conf_name(conf: &str) -> String {
    conf.strip_suffix(".conf").or_else(|| conf.strip_suffix(".meta")).unwrap_or(conf).to_owned()
}

impl Insight {
    /// Merges the files of an upload. Memory holds what takes effect, and a page of what is read.
    pub async fn effective(&self, run_id: RunId, selection: &EffectiveOptions) -> Result<Effective> {
        let exports = match &selection.context {
            Context::Global => Exports::default(),
            Context::App { .. } => self.exports(run_id).await?,
        };
        let mut merge = Merge::new(selection.context.clone(), exports);
        let mut files = FilePages::new(self.view(), run_id);
        loop {
            let page = files.next().await?;
            if page.is_empty() {
                return Ok(merge.finish());
            }
            let is_asked = |file: &FileRow| selection.conf.as_ref().is_none_or(|conf| *conf == file.conf);
            for file in page.into_iter().filter(is_asked) {
                self.merge_file(run_id, file, &mut merge).await?;
            }
        }
    }

    async fn merge_file(&self, run_id: RunId, file: FileRow, merge: &mut Merge) -> Result<()> {
        let Some(source) = merge.source(&file.path) else { return Ok(()) };
        let mut stanzas = StanzaPages::new(self.view(), run_id, Some(file), None);
        loop {
            let page = stanzas.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for stanza in page {
                merge.add_stanza(source, stanza.name.as_deref());
                for setting in &stanza.settings {
                    merge.add(source, stanza.name.as_deref(), &setting.key, &setting.value, setting.line);
                }
            }
        }
    }

    /// What the apps of an upload give to the others.
    async fn exports(&self, run_id: RunId) -> Result<Exports> {
        let mut exports = Exports::default();
        let mut files = FilePages::new(self.view(), run_id);
        loop {
            let page = files.next().await?;
            if page.is_empty() {
                return Ok(exports);
            }
            for file in
                page.into_iter().filter(|file| Place::of(&file.path).is_some_and(|place| place.kind == FileKind::Meta))
            {
                let path = file.path.clone();
                let mut stanzas = StanzaPages::new(self.view(), run_id, Some(file), None);
                loop {
                    let page = stanzas.next().await?;
                    if page.is_empty() {
                        break;
                    }
                    for stanza in page {
                        for setting in &stanza.settings {
                            exports.add(&path, stanza.name.as_deref(), &setting.key, &setting.value);
                        }
                    }
                }
            }
        }
    }
}
