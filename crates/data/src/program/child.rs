//! A program while it runs.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::blocks::{Blocks, Cut, READ};
use super::end::{End, last_lines};
use super::find;
use super::process::Process;
use super::reaper::ChildReaper;
use super::stderr::{self, Tail, Watch};
use super::tracker::{ChildTracker, LastWords};
use crate::failure::Failure;

/// How long to wait for the end of stderr after everything that could write there was ended.
const STDERR: Duration = Duration::from_secs(1);

/// What one start of a program adds to its configuration.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Come after the configured arguments.
    pub(crate) arguments: &'a [&'a OsStr],
    /// Describe the work; configured variables of the same names take their place.
    pub(crate) env: &'a [(&'static str, String)],
    pub(crate) stdin: Stdin,
    /// A line of the output that is longer ends the reading.
    pub(crate) longest_line: usize,
    pub(crate) watch: Watch,
    /// Counts the program until it has ended.
    pub(crate) tracker: &'a ChildTracker,
}

/// What a program finds on its stdin.
#[derive(Debug)]
pub(crate) enum Stdin {
    Nothing,
    /// These bytes, and then its end. A program that does not read them is none the worse.
    Bytes(Vec<u8>),
    /// Whatever the caller writes there.
    Open,
}

impl<'a> Start<'a> {
    /// Adds nothing to the configuration.
    pub(crate) fn new(tracker: &'a ChildTracker, longest_line: usize) -> Self {
        Self { arguments: &[], env: &[], stdin: Stdin::Nothing, longest_line, watch: Watch::default(), tracker }
    }
}

/// Dropping it ends the program and everything in its process group.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    process: Process,
    stdout: Blocks<ChildStdout>,
    stderr: JoinHandle<Tail>,
    /// Open, and not yet taken.
    stdin: Option<ChildStdin>,
    _input: Option<Input>,
}

impl Child {
    pub(super) fn start(
        command: &mut Command,
        name: String,
        reaper: &ChildReaper,
        start: Start<'_>,
    ) -> Result<Self, Failure> {
        let stdin = match start.stdin {
            Stdin::Nothing => Stdio::null(),
            Stdin::Bytes(_) | Stdin::Open => Stdio::piped(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (stderr_wanted, unwanted) = oneshot::channel();
        let (process, mut pipes) = Process::start(command, reaper, start.tracker.track(), stderr_wanted)
            .map_err(|error| cannot_start(&name, command.get_current_dir(), &error))?;
        let no_pipe = |error| Failure::retryable(format!("cannot start {name}: {error}"));
        let missing = || io::Error::other("it has no pipes");
        let stdout = pipes.stdout.take().ok_or_else(missing).and_then(ChildStdout::from_std).map_err(no_pipe)?;
        let stderr = pipes.stderr.take().ok_or_else(missing).and_then(ChildStderr::from_std).map_err(no_pipe)?;
        let stdin = pipes.stdin.take().map(ChildStdin::from_std).transpose().map_err(no_pipe)?;
        // Fewer wake-ups for the same bytes; without the right to, a smaller pipe does.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, READ);
        let (guard, program, watch) = (start.tracker.track(), name.clone(), start.watch);
        let draining = async move {
            let tail = stderr::drain(stderr, unwanted, program, watch).await;
            guard.keep_last_stderr(LastWords { lines: last_lines(&tail), whole: tail.whole() });
            tail
        };
        let stderr = tokio::spawn(draining.in_current_span());
        let (input, stdin) = match (start.stdin, stdin) {
            (Stdin::Bytes(bytes), Some(stdin)) => (Some(Input::write(stdin, bytes)), None),
            (Stdin::Open, stdin) => (None, stdin),
            (Stdin::Bytes(_) | Stdin::Nothing, _) => (None, None),
        };
        Ok(Self { name, process, stdout: Blocks::new(stdout, start.longest_line), stderr, stdin, _input: input })
    }

    /// The next whole lines of its output; none when it has ended.
    pub(crate) async fn block(&mut self) -> Result<Option<&[u8]>, Cut> {
        self.stdout.next(&mut self.process).await
    }

    /// Its stdin, where that was left open. Dropping it is the end of the input.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Waits until it has exited.
    pub(crate) async fn exited(&mut self) -> Result<(), Failure> {
        let exited = self.process.exited().await;
        exited.map_err(|error| Failure::retryable(format!("cannot wait for {}: {error}", self.name)))
    }

    /// Goes on after a line that was too long.
    pub(crate) fn skip_line(&mut self) {
        self.stdout.skip_line();
    }

    /// Waits for its exit, ends what it left behind, and says how it ended.
    pub(crate) async fn finish(self) -> Result<End, Failure> {
        let Self { name, mut process, stdout, mut stderr, stdin: _, _input } = self;
        let status = process.finish().await;
        let incomplete = stdout.is_incomplete();
        if incomplete {
            tracing::warn!(program = name, "ended a process that a program left behind with its output open");
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

/// Writes to a program's stdin until all is written, the program stops reading, or this is dropped.
#[derive(Debug)]
struct Input(AbortHandle);

impl Input {
    fn write(mut stdin: ChildStdin, bytes: Vec<u8>) -> Self {
        let writing = async move {
            if let Err(error) = stdin.write_all(&bytes).await {
                tracing::debug!(%error, "a program did not read all of its input");
            }
        };
        Self(tokio::spawn(writing.in_current_span()).abort_handle())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn cannot_start(name: &str, directory: Option<&Path>, error: &io::Error) -> Failure {
    let place = directory.unwrap_or(Path::new(""));
    let why = match Errno::from_io_error(error) {
        Some(Errno::NOENT) if !name.contains('/') => find::not_in_path(name),
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
        // An argument or a variable with a NUL in it has no number. They may come from the work.
        None | Some(Errno::TOOBIG) => {
            return Failure::fatal(format!("cannot run {name} with these arguments and variables: {error}"));
        }
        // Too many processes or open files, or too little memory.
        Some(_) => return Failure::retryable(format!("cannot start {name}: {error}")).of_setup(),
    };
    Failure::fatal(why).of_setup()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Launch, Program};
    use super::*;
    use crate::settings::{Nothing, Surroundings};

    /// What a shell script writes that is given this on stdin.
    async fn output(script: &str, input: Option<Vec<u8>>) -> (Vec<u8>, End) {
        let command = ["sh", "-c", script].map(str::to_owned);
        let launch = Launch { command: &command, directory: None, env: &BTreeMap::new() };
        let program = Program::new(&launch, &Surroundings::default()).unwrap();
        let tracker = ChildTracker::default();
        let stdin = input.map_or(Stdin::Nothing, Stdin::Bytes);
        let start = Start { stdin, ..Start::new(&tracker, 4 << 20) };
        let mut child = program.invocation(&Nothing).await.unwrap().start(start).unwrap();
        let mut all = Vec::new();
        while let Some(block) = child.block().await.unwrap() {
            all.extend_from_slice(block);
        }
        (all, child.finish().await.unwrap())
    }

    /// More than both pipes hold, so that one must be written while the other is read.
    #[tokio::test]
    async fn a_program_is_fed_on_stdin_while_its_output_is_read() {
        let input: Vec<u8> = b"a line of the input\n".repeat(200_000);
        let (all, end) = output("cat", Some(input.clone())).await;
        assert!(end.is_success() && all == input, "{} of {} bytes", all.len(), input.len());
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_its_input_is_none_the_worse() {
        let (all, end) = output("echo done", Some(vec![b'x'; 4 << 20])).await;
        assert!(end.is_success() && all == b"done\n", "{end:?}");
    }

    #[tokio::test]
    async fn a_program_without_input_sees_its_end_at_once() {
        assert_eq!(output("wc -c", None).await.0.trim_ascii(), b"0");
    }
}
