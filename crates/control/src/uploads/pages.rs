//! Walks over the files and the stanzas of an upload.

use redrive_core::id::RunId;
use redrive_store::{FilePage, FileRow, StanzaPage, StanzaRow, View};

use crate::error::Result;

const FILES: u32 = 1000;
const STANZAS: u32 = 500;

/// The files of an upload, in the order of the archive.
#[derive(Debug)]
pub struct FilePages<'v> {
    view: &'v View,
    page: FilePage,
}

impl<'v> FilePages<'v> {
    pub fn new(view: &'v View, run_id: RunId) -> Self {
        Self { view, page: FilePage { run_id, after: None, limit: FILES } }
    }

    /// The next page; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<FileRow>> {
        let page = self.view.files(self.page.clone()).await?;
        self.page.after = page.last().cloned().or(self.page.after.take());
        Ok(page)
    }
}

/// Stanzas of an upload, in the order of the files.
#[derive(Debug)]
pub struct StanzaPages<'v> {
    view: &'v View,
    page: StanzaPage,
}

impl<'v> StanzaPages<'v> {
    /// All stanzas, or those of one file, or those of a name.
    pub fn new(view: &'v View, run_id: RunId, file: Option<FileRow>, name: Option<String>) -> Self {
        Self { view, page: StanzaPage { run_id, file, name, after: None, limit: STANZAS } }
    }

    /// The next page; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<StanzaRow>> {
        let page = self.view.stanzas(self.page.clone()).await?;
        self.page.after = page.last().map(|last| last.place).or(self.page.after);
        Ok(page)
    }
}
