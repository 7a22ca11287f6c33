//! `singer`: a Singer tap. It writes SCHEMA, RECORD and STATE messages; one stream's records are kept, byte for byte.
//!
//! A tap that fails says so by its exit code alone, so settings may map codes and texts on stderr to classes. Records that
//! a tap repeats or leaves out are for the validator's rules to see: no state is passed, so nothing repeats by design.

mod catalog;
mod messages;
mod settings;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::connector::{
    Config, Prepared, PrivateFiles, ReadResult, absolute, gather, listed, missing_file, read_catalog, read_messages,
    wanted,
};
use super::{Error, Extractor, ExtractorContext, Failure, Job, Program, Records};
use crate::program::{Child, End};
use crate::settings::{Redactor, SettingError};
use catalog::Stream;
use messages::Tap;
use settings::{Exits, checked_exits};
pub use settings::{Pattern, Settings};

#[derive(Debug)]
pub struct Singer {
    program: Program,
    config: Config,
    catalog_file: Option<PathBuf>,
    exits: Exits,
    patterns: Vec<Pattern>,
}

impl Singer {
    pub fn new(settings: &Settings, context: &ExtractorContext) -> Result<Self, SettingError> {
        if let Some(index) = settings.stderr.iter().position(|pattern| pattern.pattern.is_empty()) {
            let why = "is empty, and so in every line; write a part of the line";
            return Err(SettingError::at("pattern", why).within(index).within("stderr"));
        }
        Ok(Self {
            program: context.program(&settings.command, settings.directory.as_deref(), &settings.env)?,
            config: Config::new(settings.config.as_ref(), settings.config_file.as_deref(), context)?,
            catalog_file: settings.catalog_file.as_deref().map(|file| absolute("catalog_file", file)).transpose()?,
            exits: checked_exits(&settings.exit_codes)?,
            patterns: settings.stderr.clone(),
        })
    }

    /// The stream and the catalog that selects it.
    async fn catalog(
        &self,
        job: &Job,
        config: &Path,
        files: &PrivateFiles,
        program: &Prepared,
    ) -> Result<(Stream, PathBuf), Error> {
        let wanted = wanted(job);
        if let Some(file) = &self.catalog_file {
            return Ok((catalog::find(&read_catalog(file)?, &wanted)?, file.clone()));
        }
        let child = self.start(job, &["--config".as_ref(), config.as_ref(), "--discover".as_ref()], program)?;
        let (answer, end) = gather(child).await?;
        self.check(&end)?;
        let mut catalog: Value = serde_json::from_slice(&answer)
            .map_err(|error| Failure::retryable(format!("what the tap says on --discover is no catalog: {error}")))?;
        let stream = catalog::find(&catalog, &wanted)?;
        catalog::select(&mut catalog, &stream);
        Ok((stream, files.write("catalog.json", &catalog)?))
    }

    fn start(&self, job: &Job, arguments: &[&OsStr], program: &Prepared) -> Result<Child, Failure> {
        program.start(job, arguments, self.patterns.iter().map(|pattern| pattern.pattern.clone()).collect())
    }

    /// What the end of the tap means: a text on stderr is more exact than a code.
    fn check(&self, end: &End) -> Result<(), Failure> {
        for Pattern { pattern, class, even_on_success } in &self.patterns {
            if let Some(line) = end.line_with(pattern).filter(|_| *even_on_success || !end.is_success()) {
                return Err(Failure::new(*class, end.with(line)));
            }
        }
        if end.is_success() {
            return Ok(());
        }
        match end.code().and_then(|code| self.exits.get(&code)) {
            Some(class) => Err(Failure::new(*class, end.describe())),
            None => Err(end.failure()),
        }
    }
}

impl Extractor for Singer {
    fn name(&self) -> &'static str {
        "singer"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let files = PrivateFiles::new()?;
            let config = self.config.file(job, &files).await?;
            let invocation = self.program.invocation(job).await?;
            let program = Prepared { invocation, redactor: Arc::new(Redactor::new(&self.secrets(job))) };
            let (stream, catalog) = self.catalog(job, &config, &files, &program).await?;
            let arguments = ["--config".as_ref(), config.as_ref(), "--catalog".as_ref(), catalog.as_ref()];
            let child = self.start(job, &arguments, &program)?;
            let ReadResult { handler: tap, end } = read_messages(child, Tap::new(stream), records).await?;
            records.note("records_seen", tap.records);
            self.check(&end)?;
            if !tap.has_schema {
                let (wanted, sent) = (&tap.stream.wanted, listed(tap.others.iter().map(String::as_str)));
                let why = format!("the tap sent no SCHEMA for stream {wanted:?}; it sent these streams: {sent}");
                return Err(Failure::fatal(why).into());
            }
            Ok(())
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
