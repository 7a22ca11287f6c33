//! How two uploads differ, file by file, by stanza and key.

use std::collections::BTreeMap;

use redrive_conf::{Content, diff};
use redrive_core::id::RunId;
use redrive_store::FileRow;

use super::pages::{FilePages, StanzaPages};
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::DifferenceShape;

impl Insight {
    /// Tells each difference between an old and a new upload, in the order of the paths. Memory holds the paths, and two
    /// files.
    pub async fn compare<E: From<crate::error::Error>>(
        &self,
        old: RunId,
        new: RunId,
        mut tell: impl FnMut(DifferenceShape) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut pairs: BTreeMap<String, [Option<FileRow>; 2]> = BTreeMap::new();
        for (side, run_id) in [old, new].into_iter().enumerate() {
            let mut files = FilePages::new(self.view(), run_id);
            loop {
                let page = files.next().await?;
                if page.is_empty() {
                    break;
                }
                for file in page {
                    let pair = pairs.entry(file.path.clone()).or_default();
                    pair[side] = Some(file);
                }
            }
        }
        for (path, [before, after]) in pairs {
            let (before, after) = (self.content(old, before).await?, self.content(new, after).await?);
            for change in diff(&before, &after) {
                tell(DifferenceShape::new(&path, &change))?;
            }
        }
        Ok(())
    }

    async fn content(&self, run_id: RunId, file: Option<FileRow>) -> Result<Content> {
        let mut content = Content::default();
        let Some(file) = file else { return Ok(content) };
        let mut stanzas = StanzaPages::new(self.view(), run_id, Some(file), None);
        loop {
            let page = stanzas.next().await?;
            if page.is_empty() {
                return Ok(content);
            }
            for stanza in page {
                content.add_stanza(stanza.name.as_deref());
                for setting in &stanza.settings {
                    content.add(stanza.name.as_deref(), &setting.key, &setting.value, setting.line);
                }
            }
        }
    }
}
