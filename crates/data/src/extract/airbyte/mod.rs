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

use futures_util::future::{BoxFuture, FutureExt as _};
use redrive_core::mistake::Mistake;
use redrive_store::clock::Clock;

use super::child::{Child, Launch, Program, Watch};
use super::connector::{Config, Messages, PrivateFiles, absolute, gather, listen, read_catalog, wanted};
use super::{Error, Extractor, Failure, Job, Records, Surroundings};
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
    pub fn new(settings: &Settings, surroundings: &Surroundings<'_>) -> Result<Self, Mistake> {
        let launch =
            Launch { command: &settings.command, directory: settings.directory.as_deref(), env: &settings.env };
        Ok(Self {
            program: Program::new(&launch, surroundings)?,
            config: Config::new(settings.config.as_ref(), settings.config_file.as_deref(), surroundings)?,
            catalog_file: settings.catalog_file.as_deref().map(|file| absolute("catalog_file", file)).transpose()?,
            require_status: settings.require_status,
            clock: surroundings.clock.clone(),
        })
    }

    async fn bring(&self, job: &Job, records: &mut Records) -> Result<(), Error> {
        let files = PrivateFiles::new()?;
        let config = self.config.file(job, &files)?;
        let (stream, catalog) = self.catalog(job, &config, &files).await?;
        let arguments = ["read".as_ref(), "--config".as_ref(), config.as_ref(), "--catalog".as_ref(), catalog.as_ref()];
        let child = self.start(job, &arguments)?;
        let heard = listen(child, Source::new(Some(stream), self.secrets()), records).await?;
        let (source, end) = (heard.listener, heard.end);
        records.note("records_seen", source.records);
        let failed = verdict::of_exit(&end, &source);
        Ok(verdict::of_read(&source, failed, self.require_status, self.clock.now())?)
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
        let mut messages = Messages::new(Source::new(None, self.secrets()));
        messages.take(&answer)?;
        let source = messages.into_listener();
        let failed = verdict::of_exit(&end, &source);
        if let Some(failure) = verdict::of_failure(&source, failed, self.clock.now()) {
            return Err(failure);
        }
        source.catalog.ok_or_else(|| Failure::retryable("the source answered discover without a CATALOG"))
    }

    fn start(&self, job: &Job, more: &[&std::ffi::OsStr]) -> Result<Child, Failure> {
        self.program.start(job, more, Watch { secrets: self.secrets(), patterns: Vec::new() })
    }
}

impl Extractor for Airbyte {
    fn name(&self) -> &'static str {
        "airbyte"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        self.bring(job, records).boxed()
    }

    fn secrets(&self) -> Vec<String> {
        [self.program.secrets(), self.config.secrets()].concat()
    }
}
