//! `command`: any program. It gets the job as one JSON object on stdin, and its last line on stdout is the answer.
//!
//! Exit code 0 is done. Other ends are classified as for extractors: by the last line of stderr, where it is a report, or
//! otherwise by the code, as `sysexits.h` means it. A program that ends well without a verdict has failed in a way that
//! may pass: it can be put right before the job has no attempts left.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use memchr::memrchr;
use tracing::Instrument as _;

use super::{Answer, Context, Error, Failure, Handler, Job};
use crate::program::{Cut, Launch, Program, Start, Stdin, Watch};
use crate::settings::{Redactor, SettingError, Surroundings, ValueRef};

/// A longer line on stdout ends the reading.
const LONGEST_LINE: usize = 1 << 20;

/// What the configuration says of a program.
#[derive(Debug)]
pub struct CommandSettings<'a> {
    /// The program and its arguments, with placeholders.
    pub command: &'a [String],
    /// Where it runs; a program's name with a `/` in it begins there.
    pub directory: Option<&'a Path>,
    /// Variables beside those that are inherited and those that describe the job.
    pub env: &'a BTreeMap<String, ValueRef>,
}

#[derive(Debug)]
pub struct Command {
    program: Program<Job>,
}

impl Command {
    pub fn new(settings: &CommandSettings<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        let CommandSettings { command, directory, env } = *settings;
        Ok(Self { program: Program::new(&Launch { command, directory, env }, around)? })
    }

    async fn run(&self, job: &Job, context: &Context) -> Result<Answer, Failure> {
        let invocation = self.program.invocation(job).await?;
        let redactor = Arc::new(Redactor::new(&self.program.secrets(job)));
        let watch = Watch::with(Arc::clone(&redactor));
        let env = [
            ("REDRIVE_RUN_ID", job.run_id().to_string()),
            ("REDRIVE_CATEGORY", job.category().to_owned()),
            ("REDRIVE_ATTEMPT", job.attempt().to_string()),
        ];
        let stdin = Stdin::Bytes((job.to_json() + "\n").into_bytes());
        let start = Start { env: &env, stdin, watch, ..Start::new(context.children(), LONGEST_LINE) };
        let mut child = invocation.start(start)?;
        let mut last_line = Vec::new();
        loop {
            match child.block().await {
                Ok(Some(block)) => {
                    context.keep_output(block);
                    if let Some(line) = last_line_of(block) {
                        last_line.clear();
                        last_line.extend_from_slice(line);
                    }
                }
                Ok(None) => break,
                Err(Cut::Overlong) => {
                    return Err(Failure::retryable("the program wrote a line longer than 1 MiB on stdout"));
                }
                Err(Cut::Io(error)) => {
                    return Err(Failure::retryable(format!("cannot read the program's output: {error}")));
                }
            }
        }
        let end = child.finish().await?;
        if !end.is_success() {
            return Err(end.failure());
        }
        let unreadable = |why: String| Failure::retryable(end.with(&redactor.redact(&why)));
        Answer::read(&last_line, "the last line of its stdout").map_err(unreadable)
    }
}

/// The last line that is not blank.
fn last_line_of(block: &[u8]) -> Option<&[u8]> {
    let block = block.trim_ascii_end();
    let start = memrchr(b'\n', block).map_or(0, |newline| newline + 1);
    Some(block[start..].trim_ascii_start()).filter(|line| !line.is_empty())
}

impl Handler for Command {
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> BoxFuture<'a, Result<Answer, Error>> {
        // So that a program's log lines say whose they are.
        let span = tracing::warn_span!("process", category = job.category(), run_id = %job.run_id());
        Box::pin(async move { Ok(self.run(job, context).await?) }.instrument(span))
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        self.program.secrets(job)
    }

    fn missing(&self) -> Vec<String> {
        self.program.missing()
    }
}

#[cfg(test)]
mod tests {
    use super::last_line_of;

    #[test]
    fn the_last_line_is_the_last_that_is_not_blank() {
        for (block, line) in [
            ("a\nb\n", Some("b")),
            ("a", Some("a")),
            ("a\r\n \n\t\n", Some("a")),
            ("a\n  b  ", Some("b")),
            (" \n\n", None),
            ("", None),
        ] {
            assert_eq!(last_line_of(block.as_bytes()), line.map(str::as_bytes), "{block:?}");
        }
    }
}
