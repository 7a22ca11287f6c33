//! `airbyte`: an Airbyte source, run as a program. One stream is read whole, and its records' data kept byte for byte.
//!
//! Exit code 0 is not enough: the stream must also have said that it is COMPLETE, and the records that arrived must be
//! as many as the source counted, where it counts.

mod catalog;
mod messages;
mod settings;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::settings::SettingError;
use futures_util::future::BoxFuture;
use redrive_store::clock::Clock;

use super::connector::{Config, MessageReader, PrivateFiles, absolute, gather, listen, read_catalog, wanted};
use super::{Error, Extractor, ExtractorContext, Failure, Job, Program, Records};
use crate::program::{Child, Launch, Watch};
use catalog::StreamName;
use messages::Source;
pub use settings::Settings;

#[derive(Debug)]
pub struct Airbyte {
    program: Program,
    config: Config,
    catalog_file: Option<PathBuf>,
    require_status: bool,
    clock: Arc<dyn Clock>,
}

impl Airbyte {
    pub fn new(settings: &Settings, context: &ExtractorContext<'_>) -> Result<Self, SettingError> {
        let launch =
            Launch { command: &settings.command, directory: settings.directory.as_deref(), env: &settings.env };
        Ok(Self {
            program: Program::new(&launch, context.variable, &context.reaper)?,
            config: Config::new(settings.config.as_ref(), settings.config_file.as_deref(), context)?,
            catalog_file: settings.catalog_file.as_deref().map(|file| absolute("catalog_file", file)).transpose()?,
            require_status: settings.require_status,
            clock: context.clock.clone(),
        })
    }

    /// The stream and the catalog that configures it alone.
    async fn catalog(&self, job: &Job, config: &Path, files: &PrivateFiles) -> Result<(StreamName, PathBuf), Failure> {
        let found = match &self.catalog_file {
            Some(file) => read_catalog(file)?,
            None => self.discover(job, config).await?,
        };
        let (name, configured) = catalog::configure(&found, &wanted(job))?;
        Ok((name, files.write("catalog.json", &configured)?))
    }

    async fn discover(&self, job: &Job, config: &Path) -> Result<serde_json::Value, Failure> {
        let child = self.start(job, &["discover".as_ref(), "--config".as_ref(), config.as_ref()])?;
        let (answer, end) = gather(child).await?;
        let mut messages = MessageReader::new(Source::new(None, self.secrets()));
        messages.take(&answer)?;
        let source = messages.into_handler();
        let failed = verdict::of_exit(&end, &source);
        if let Some(failure) = verdict::of_failure(&source, failed, self.clock.now()) {
            return Err(failure);
        }
        source.catalog.ok_or_else(|| Failure::retryable("the source answered discover without a CATALOG"))
    }

    fn start(&self, job: &Job, more: &[&std::ffi::OsStr]) -> Result<Child, Failure> {
        job.start(&self.program, more, Watch { secrets: self.secrets(), patterns: Vec::new() })
    }
}

impl Extractor for Airbyte {
    fn name(&self) -> &'static str {
        "airbyte"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let files = PrivateFiles::new()?;
            let config = self.config.file(job, &files)?;
            let (stream, catalog) = self.catalog(job, &config, &files).await?;
            let arguments =
                ["read".as_ref(), "--config".as_ref(), config.as_ref(), "--catalog".as_ref(), catalog.as_ref()];
            let child = self.start(job, &arguments)?;
            let heard = listen(child, Source::new(Some(stream), self.secrets()), records).await?;
            let (source, end) = (heard.handler, heard.end);
            records.note("records_seen", source.records);
            let failed = verdict::of_exit(&end, &source);
            Ok(verdict::of_read(&source, failed, self.require_status, self.clock.now())?)
        })
    }

    fn secrets(&self) -> Vec<String> {
        [self.program.secrets(), self.config.secrets()].concat()
    }
}
