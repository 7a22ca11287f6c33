//! `airbyte`: an Airbyte source, run as a program. One stream is read whole, and its records' data kept byte for byte.
//!
//! Exit code 0 is not enough: the stream must also have said that it is COMPLETE, and the records that arrived must be
//! as many as the source counted, where it counts.

mod catalog;
mod messages;
mod settings;
mod verdict;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use redrive_store::clock::Clock;
use serde_json::Value;

use super::connector::{
    Config, MessageReader, PrivateFiles, ReadResult, absolute, gather, read_catalog, read_messages, wanted,
};
use super::{Error, Extractor, ExtractorContext, Failure, Job, Program, Records};
use crate::program::{Child, Watch};
use crate::settings::{Redactor, SettingError};
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
        Ok(Self {
            program: context.program(&settings.command, settings.directory.as_deref(), &settings.env)?,
            config: Config::new(settings.config.as_ref(), settings.config_file.as_deref(), context)?,
            catalog_file: settings.catalog_file.as_deref().map(|file| absolute("catalog_file", file)).transpose()?,
            require_status: settings.require_status,
            clock: context.clock.clone(),
        })
    }

    /// The stream and the catalog that configures it alone.
    async fn catalog(
        &self,
        job: &Job,
        config: &Path,
        files: &PrivateFiles,
        redactor: &Arc<Redactor>,
    ) -> Result<(StreamName, PathBuf), Error> {
        let found = match &self.catalog_file {
            Some(file) => read_catalog(file)?,
            None => self.discover(job, config, redactor).await?,
        };
        let (name, configured) = catalog::configure(&found, &wanted(job))?;
        Ok((name, files.write("catalog.json", &configured)?))
    }

    async fn discover(&self, job: &Job, config: &Path, redactor: &Arc<Redactor>) -> Result<Value, Failure> {
        let child = self.start(job, &["discover".as_ref(), "--config".as_ref(), config.as_ref()], redactor)?;
        let (answer, end) = gather(child).await?;
        let mut messages = MessageReader::new(Source::new(None, Arc::clone(redactor)));
        messages.take(&answer)?;
        let source = messages.into_handler();
        let failed = verdict::of_exit(&end, &source);
        if let Some(failure) = verdict::of_failure(&source, failed, self.clock.now()) {
            return Err(failure);
        }
        source.catalog.ok_or_else(|| Failure::retryable("the source answered discover without a CATALOG"))
    }

    fn start(&self, job: &Job, arguments: &[&OsStr], redactor: &Arc<Redactor>) -> Result<Child, Failure> {
        job.start(&self.program, arguments, Watch { redactor: Arc::clone(redactor), patterns: Vec::new() })
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
            let redactor = Arc::new(Redactor::new(&self.secrets()));
            let (stream, catalog) = self.catalog(job, &config, &files, &redactor).await?;
            let arguments =
                ["read".as_ref(), "--config".as_ref(), config.as_ref(), "--catalog".as_ref(), catalog.as_ref()];
            let child = self.start(job, &arguments, &redactor)?;
            let source = Source::new(Some(stream), redactor);
            let ReadResult { handler: source, end } = read_messages(child, source, records).await?;
            records.note("records_seen", source.records);
            let failed = verdict::of_exit(&end, &source);
            Ok(verdict::of_read(&source, failed, self.require_status, self.clock.now())?)
        })
    }

    fn secrets(&self) -> Vec<String> {
        [self.program.secrets(), self.config.secrets()].concat()
    }
}
