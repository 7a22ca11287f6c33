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

use futures_util::future::BoxFuture;
use redrive_store::clock::Clock;
use serde_json::Value;

use super::connector::{
    Config, MessageReader, Prepared, PrivateFiles, ReadResult, absolute, gather, missing_file, read_catalog,
    read_messages, wanted,
};
use super::{Error, Extractor, ExtractorContext, Failure, Job, Program, Records};
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
    pub fn new(settings: &Settings, context: &ExtractorContext) -> Result<Self, SettingError> {
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
        program: &Prepared,
    ) -> Result<(StreamName, PathBuf), Error> {
        let found = match &self.catalog_file {
            Some(file) => read_catalog(file)?,
            None => self.discover(job, config, program).await?,
        };
        let (name, configured) = catalog::configure(&found, &wanted(job))?;
        Ok((name, files.write("catalog.json", &configured)?))
    }

    async fn discover(&self, job: &Job, config: &Path, program: &Prepared) -> Result<Value, Failure> {
        let arguments = ["discover".as_ref(), "--config".as_ref(), config.as_ref()];
        let child = program.start(job, &arguments, Vec::new())?;
        let (answer, end) = gather(child).await?;
        let mut messages = MessageReader::new(Source::new(None, Arc::clone(&program.redactor)));
        messages.take(&answer)?;
        let source = messages.into_handler();
        let failed = verdict::of_exit(&end, &source);
        if let Some(failure) = verdict::of_failure(&source, failed, self.clock.now()) {
            return Err(failure);
        }
        source.catalog.ok_or_else(|| Failure::retryable("the source answered discover without a CATALOG"))
    }
}

impl Extractor for Airbyte {
    fn name(&self) -> &'static str {
        "airbyte"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let files = PrivateFiles::new()?;
            let config = self.config.file(job, &files).await?;
            let invocation = self.program.invocation(job).await?;
            let program = Prepared { invocation, redactor: Arc::new(Redactor::new(&self.secrets(job))) };
            let (stream, catalog) = self.catalog(job, &config, &files, &program).await?;
            let arguments =
                ["read".as_ref(), "--config".as_ref(), config.as_ref(), "--catalog".as_ref(), catalog.as_ref()];
            let child = program.start(job, &arguments, Vec::new())?;
            let source = Source::new(Some(stream), program.redactor);
            let ReadResult { handler: source, end } = read_messages(child, source, records).await?;
            records.note("records_seen", source.records);
            let failed = verdict::of_exit(&end, &source);
            Ok(verdict::of_read(&source, failed, self.require_status, self.clock.now())?)
        })
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        [self.program.secrets(job), self.config.secrets(job)].concat()
    }

    fn missing(&self) -> Vec<String> {
        let catalog = self.catalog_file.as_deref().and_then(|file| missing_file("catalog_file", file));
        self.program.missing().into_iter().chain(self.config.missing()).chain(catalog).collect()
    }

    fn missing_for(&self, job: &Job) -> Vec<String> {
        [self.program.missing_for(job), self.config.missing_for(job)].concat()
    }
}
