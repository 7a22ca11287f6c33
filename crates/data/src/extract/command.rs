//! `command`: any program that writes one JSON object per line on stdout.
//!
//! Exit code 0 is done. Other ends are classified by the last line of stderr, where it is a report, and otherwise by the
//! code, as `sysexits.h` means it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{Error, Extractor, ExtractorContext, Failure, Job, Program, Records};
use crate::program::{Cut, Watch};
use crate::settings::{Redactor, SettingError, ValueRef, duration};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Where it runs; a program's name with a `/` in it begins there.
    pub directory: Option<PathBuf>,
    /// Variables beside those that are inherited and those that tell it what to bring.
    #[serde(default)]
    pub env: BTreeMap<String, ValueRef>,
}

#[derive(Debug)]
pub struct Command {
    program: Program,
}

impl Command {
    pub fn new(settings: &Settings, context: &ExtractorContext) -> Result<Self, SettingError> {
        Ok(Self { program: context.program(&settings.command, settings.directory.as_deref(), &settings.env)? })
    }
}

impl Extractor for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let invocation = self.program.invocation(job).await?;
            let watch = Watch::with(Arc::new(Redactor::new(&self.secrets(job))));
            let mut child = job.start(&invocation, &[], watch)?;
            loop {
                match child.block().await {
                    Ok(Some(block)) => records.lines(block).await?,
                    Ok(None) => break,
                    Err(Cut::Overlong) => return records.check_length(usize::MAX),
                    Err(Cut::Io(error)) => {
                        return Err(Failure::retryable(format!("cannot read the program's output: {error}")).into());
                    }
                }
            }
            let end = child.finish().await?;
            if end.is_success() { Ok(()) } else { Err(end.failure().into()) }
        })
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        self.program.secrets(job)
    }

    fn missing(&self) -> Vec<String> {
        self.program.missing()
    }

    fn missing_for(&self, job: &Job) -> Vec<String> {
        self.program.missing_for(job)
    }
}
