//! `validate.command`: a program that is shown an attempt's records and says whether they are right.
//!
//! It is asked last, when every other rule is kept. It gets the records as JSON lines on stdin, decompressed, wherever the
//! sink is; what it prints on stdout is not looked at. Exit code 0 accepts. Any other end rejects, and is classified as an
//! extractor's: by the last line of stderr, where it is a report, and otherwise by the code.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use redrive_core::failure::ErrorClass;
use redrive_store::raw::{Manifest, RawView};
use tokio::io::AsyncWriteExt as _;

use crate::error::Result;
use crate::extract::Job;
use crate::failure::{Blame, Failure};
use crate::program::{Child, Cut, End, Program, Start, Stdin, Watch};
use crate::settings::Redactor;

/// Longer lines of its stdout are passed over.
const LONGEST_LINE: usize = 64 << 10;

#[derive(Debug)]
pub struct ValidatorProgram {
    pub(super) program: Program<Job>,
    pub(super) timeout: Duration,
}

impl ValidatorProgram {
    /// What it would need of this machine and does not find.
    pub fn missing(&self) -> Vec<String> {
        self.program.missing()
    }

    /// The secrets that it works with for a job.
    pub fn secrets(&self, job: &Job) -> Vec<String> {
        self.program.secrets(job)
    }

    /// Shows it what lies in the sink; gives why it does not accept that. An error says that the sink cannot be read.
    pub async fn judge(&self, raw: &RawView, manifest: &Manifest, job: &Job) -> Result<Option<Failure>> {
        let child = match self.start(raw, manifest, job).await {
            Ok(child) => child,
            Err(failure) => return Ok(Some(named(failure))),
        };
        let Ok(ended) = tokio::time::timeout(self.timeout, show(child, raw, manifest)).await else {
            // What it said is known when it has ended.
            job.children.ended().await;
            let said = job.children.last_stderr().map_or_else(String::new, |lines| format!(": {lines}"));
            let why = format!("timed out after {} s{said}", self.timeout.as_secs_f64());
            return Ok(Some(named(Failure::retryable(why))));
        };
        Ok(match ended? {
            Ok(end) if end.is_success() => None,
            Ok(end) => Some(named(end.failure())),
            Err(failure) => Some(named(failure)),
        })
    }

    async fn start(&self, raw: &RawView, manifest: &Manifest, job: &Job) -> Result<Child, Failure> {
        let invocation = self.program.invocation(job).await?;
        let mut env = job.variables();
        env.push(("REDRIVE_RECORDS", manifest.records.to_string()));
        if let Some(file) = raw.manifest_file(&manifest.key, manifest.run_id) {
            env.push(("REDRIVE_MANIFEST", file));
        }
        let watch = Watch::with(Arc::new(Redactor::new(&self.secrets(job))));
        let start = Start { env: &env, stdin: Stdin::Open, watch, ..Start::new(&job.children, LONGEST_LINE) };
        invocation.start(start)
    }
}

/// Feeds the records to the program until it has ended or has seen enough.
async fn show(mut child: Child, raw: &RawView, manifest: &Manifest) -> Result<Result<End, Failure>> {
    let stdin = child.take_stdin();
    {
        let feeding = async {
            let Some(mut stdin) = stdin else { return Ok(()) };
            let mut pieces = raw.chunks(manifest);
            while let Some(piece) = pieces.next().await.transpose()? {
                // A program that has seen enough need not read the rest.
                if stdin.write_all(&piece).await.is_err() {
                    break;
                }
            }
            Ok::<_, crate::error::Error>(())
        };
        let mut ending = Box::pin(until_exit(&mut child));
        let exited = tokio::select! {
            fed = feeding => {
                fed?;
                ending.await
            }
            exited = &mut ending => exited,
        };
        if let Err(failure) = exited {
            return Ok(Err(failure));
        }
    }
    Ok(child.finish().await)
}

/// Drains what the program prints, and waits for its exit.
async fn until_exit(child: &mut Child) -> Result<(), Failure> {
    loop {
        match child.block().await {
            Ok(Some(_)) => {}
            Ok(None) => return child.exited().await,
            Err(Cut::Overlong) => child.skip_line(),
            Err(Cut::Io(error)) => {
                return Err(Failure::retryable(format!("cannot read the program's output: {error}")));
            }
        }
    }
}

/// Says who objects. A validator is no source: it cannot ask that the source be left alone.
fn named(failure: Failure) -> Failure {
    let class = match failure.class {
        ErrorClass::RateLimited => ErrorClass::Retryable,
        ErrorClass::Retryable | ErrorClass::Final => failure.class,
    };
    let message = match failure.blame {
        Blame::Work => format!("validate.command: {}", failure.message),
        Blame::Setup => format!("validate.command cannot be used: {}", failure.message),
    };
    Failure { class, message, retry_after: None, ..failure }
}
