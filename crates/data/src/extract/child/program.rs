//! Which program, with which arguments and surroundings; and the program while it runs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;
use redrive_core::mistake::Mistake;
use rustix::io::Errno;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::blocks::{Blocks, Cut, READ};
use super::end::{End, last_lines};
use super::leash::Leash;
use super::process::Process;
use super::stderr::{self, Tail, Watch};
use crate::extract::value::{Value, ValueRef};
use crate::extract::{Escape, Failure, Job, MAX_RECORD_BYTES, Surroundings, Template};

/// How long to wait for the end of stderr after everything that could write there was ended.
const STDERR: Duration = Duration::from_secs(1);

/// How the configuration describes a program.
#[derive(Debug)]
pub(in crate::extract) struct Launch<'a> {
    pub(in crate::extract) command: &'a [String],
    pub(in crate::extract) directory: Option<&'a Path>,
    pub(in crate::extract) env: &'a BTreeMap<String, ValueRef>,
}

#[derive(Debug)]
pub(in crate::extract) struct Program {
    name: Template,
    arguments: Vec<Template>,
    directory: Option<PathBuf>,
    env: Vec<(String, Value)>,
    leash: Leash,
}

impl Program {
    pub(in crate::extract) fn new(launch: &Launch<'_>, surroundings: &Surroundings<'_>) -> Result<Self, Mistake> {
        let word = |(index, text): (usize, &String)| {
            Template::parse(text).map_err(|why| Mistake::at(index, why).within("command"))
        };
        let Some(name) = launch.command.first().filter(|name| !name.is_empty()) else {
            let why = "names no program; write it and its arguments, like [\"python3\", \"x.py\"]";
            return Err(Mistake::at("command", why));
        };
        let variable = |(name, value): (&String, &ValueRef)| {
            let wrong = |why: String| Mistake::at(name.as_str(), why).within("env");
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(wrong("cannot be the name of a variable; correct it".to_owned()));
            }
            Ok((name.clone(), value.resolve(surroundings).map_err(wrong)?))
        };
        Ok(Self {
            name: word((0, name))?,
            arguments: launch.command.iter().enumerate().skip(1).map(word).collect::<Result<_, _>>()?,
            directory: launch.directory.map(Path::to_owned),
            env: launch.env.iter().map(variable).collect::<Result<_, _>>()?,
            leash: surroundings.leash.clone(),
        })
    }

    pub(in crate::extract) fn secrets(&self) -> Vec<String> {
        self.env.iter().flat_map(|(_, value)| value.secrets()).collect()
    }

    /// Starts it, with more arguments after its own.
    pub(in crate::extract) fn start(
        &self,
        job: &Job,
        more: &[&std::ffi::OsStr],
        watch: Watch,
    ) -> Result<Child, Failure> {
        let name = self.name.render(job, Escape::Plain);
        let mut command = Command::new(&name);
        command.args(self.arguments.iter().map(|argument| argument.render(job, Escape::Plain))).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(told(job));
        for (variable, value) in &self.env {
            command.env(variable, value.render(job)?);
        }
        if let Some(directory) = &self.directory {
            if !directory.is_dir() {
                let directory = directory.display();
                return Err(Failure::fatal(format!("directory {directory} does not exist; create it or correct it")));
            }
            command.current_dir(directory);
        }
        Child::start(&mut command, name.clone(), &self.leash, job, watch)
            .map_err(|error| self.cannot_start(&name, &error))
    }

    fn cannot_start(&self, name: &str, error: &io::Error) -> Failure {
        let place = self.directory.as_deref().unwrap_or(Path::new(""));
        let why = match Errno::from_io_error(error) {
            Some(Errno::NOENT) if !name.contains('/') => {
                format!("cannot find {name} in the PATH; install it or write its whole path")
            }
            Some(Errno::NOENT) if place.join(name).exists() => {
                format!("cannot run {name}: the program that its first line names is missing; install that")
            }
            Some(Errno::NOENT | Errno::NOTDIR) => format!("{name} does not exist; correct command"),
            Some(Errno::ACCESS) => {
                format!("{name} may not be run (without a / it is looked up in the PATH); make it executable")
            }
            Some(Errno::NOEXEC) => {
                format!("cannot run {name}: it is no program for this machine; begin a script with #!")
            }
            // An argument or a variable with a NUL in it has no number.
            None | Some(Errno::TOOBIG) => format!("cannot run {name} with these arguments and variables: {error}"),
            Some(_) => return Failure::retryable(format!("cannot start {name}: {error}")),
        };
        Failure::fatal(why)
    }
}

/// What every program is told about the attempt.
fn told(job: &Job) -> [(&'static str, String); 7] {
    [
        ("REDRIVE_RUN_ID", job.run_id.to_string()),
        ("REDRIVE_SOURCE", job.key.source.to_string()),
        ("REDRIVE_CUSTOMER_ID", job.key.customer_id.to_string()),
        ("REDRIVE_QUERY_NAME", job.key.query_name.to_string()),
        ("REDRIVE_LOGICAL_DATE", job.key.logical_date.to_string()),
        ("REDRIVE_QUERY", job.query.clone().unwrap_or_default()),
        ("REDRIVE_ATTEMPT", job.attempt.to_string()),
    ]
}

/// A program that runs. Dropping it ends it and everything in its process group.
#[derive(Debug)]
pub(in crate::extract) struct Child {
    name: String,
    key: PartitionKey,
    run_id: RunId,
    process: Process,
    stdout: Blocks<ChildStdout>,
    stderr: JoinHandle<Tail>,
}

impl Child {
    fn start(command: &mut Command, name: String, leash: &Leash, job: &Job, watch: Watch) -> io::Result<Self> {
        let (stderr_wanted, unwanted) = oneshot::channel();
        let (process, pipes) = Process::start(command, leash, job.roster.enter(), stderr_wanted)?;
        let no_pipe = || io::Error::other("it has no pipes");
        let stdout = ChildStdout::from_std(pipes.stdout.ok_or_else(no_pipe)?)?;
        let stderr = ChildStderr::from_std(pipes.stderr.ok_or_else(no_pipe)?)?;
        // Fewer wake-ups for the same bytes; without the right to, a smaller pipe does.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, READ);
        let (listener, program) = (job.roster.enter(), name.clone());
        let stderr = tokio::spawn(async move {
            let tail = stderr::drain(stderr, unwanted, program, watch).await;
            listener.heard(last_lines(&tail));
            tail
        });
        Ok(Self {
            name,
            key: job.key.clone(),
            run_id: job.run_id,
            process,
            stdout: Blocks::new(stdout, MAX_RECORD_BYTES),
            stderr,
        })
    }

    /// The next whole lines of its output; none when it has ended.
    pub(in crate::extract) async fn block(&mut self) -> Result<Option<&[u8]>, Cut> {
        self.stdout.next(&mut self.process).await
    }

    /// Waits for its exit, ends what it left behind, and says how it ended.
    pub(in crate::extract) async fn finish(self) -> Result<End, Failure> {
        let Self { name, key, run_id, mut process, stdout, mut stderr } = self;
        let status = process.finish().await;
        let incomplete = stdout.is_incomplete();
        if incomplete {
            let program = name.as_str();
            tracing::warn!(%key, %run_id, program, "a program left a process behind that held its output open; it was ended");
        }
        drop(stdout);
        let status = status.map_err(|error| Failure::retryable(format!("cannot wait for {name}: {error}")))?;
        let tail = match timeout(STDERR, &mut stderr).await {
            Ok(tail) => tail,
            Err(_) => {
                drop(process);
                stderr.await
            }
        };
        let tail = tail.map_err(|error| Failure::retryable(format!("cannot read what {name} says: {error}")))?;
        Ok(End { program: name, status, stderr: tail, incomplete })
    }
}
