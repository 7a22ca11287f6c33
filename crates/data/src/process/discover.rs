//! `discover`: asks a program or a URL, again and again, which jobs there are, and submits those that are new.
//!
//! A job is known by its external id, so several workers may ask at once and nothing is submitted twice. What is in
//! memory does not grow with the list. A line that is no job is skipped and said. A discover that fails is logged and tried
//! again; it never stops the worker.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::run::{self, JobError, MAX_JOB_BYTES};
use redrive_core::text::{cut, one_line};
use redrive_store::clock::Clock;
use redrive_store::{DataStore, NewRun};
use tokio::time::Instant;

use super::post::Server;
use super::{CommandSettings, Failure, PostSettings, Section};
use crate::lines::{Lines, Overlong};
use crate::program::{ChildTracker, Cut, Launch, Program, Start, Watch};
use crate::settings::{Nothing, Redactor, SettingError, Surroundings};
use crate::worker::Shutdown;

/// What is wrong with a longer line.
const TOO_LONG: &str = "it is longer than a job with a payload of 1 MiB can be";

/// From how many jobs, or bytes of their payloads, on a batch is submitted.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 << 20;

/// The longest pause after failures, unless the interval is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Where a section's jobs are found, and how often to look.
#[derive(Debug)]
pub struct Discover {
    place: Place,
    pace: DiscoverPace,
}

/// How often to look, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoverPace {
    pub interval: Duration,
    /// How long one listing may take.
    pub timeout: Duration,
}

#[derive(Debug)]
enum Place {
    Command(Program<Nothing>),
    Url(Box<Server<Nothing>>),
}

impl Discover {
    pub fn command(
        settings: &CommandSettings<'_>,
        pace: DiscoverPace,
        around: &Surroundings,
    ) -> Result<Self, SettingError> {
        let CommandSettings { command, directory, env } = *settings;
        let program = Program::new(&Launch { command, directory, env }, around)?;
        Ok(Self { place: Place::Command(program), pace })
    }

    pub fn url(
        settings: &PostSettings<'_>,
        pace: DiscoverPace,
        around: &Surroundings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SettingError> {
        Ok(Self { place: Place::Url(Box::new(Server::new(settings, around, clock)?)), pace })
    }

    /// What it would need of this machine and does not find.
    pub fn missing(&self) -> Vec<String> {
        match &self.place {
            Place::Command(program) => program.missing(),
            Place::Url(server) => server.missing(),
        }
    }

    fn secrets(&self) -> Vec<String> {
        match &self.place {
            Place::Command(program) => program.secrets(&Nothing),
            Place::Url(server) => server.headers.secrets(&Nothing),
        }
    }
}

/// What one listing brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    pub new: u64,
    /// Jobs that were there already.
    pub known: u64,
    /// Lines that are no jobs, and what is wrong with the first of them.
    pub skipped: u64,
    pub first_skipped: Option<String>,
}

/// Asks for the jobs of one section.
#[derive(Debug)]
pub struct Discovery {
    data: DataStore,
    section: Arc<Section>,
    discover: Arc<Discover>,
    programs: ChildTracker,
}

impl Discovery {
    /// None where the section has no `discover`.
    pub fn new(data: DataStore, section: &Arc<Section>) -> Option<Self> {
        let discover = Arc::clone(section.discover.as_ref()?);
        Some(Self { data, section: Arc::clone(section), discover, programs: ChildTracker::default() })
    }

    /// Asks at every interval until a shutdown is requested, and after failures less often.
    pub async fn run(self, shutdown: Shutdown) {
        let mut failures = 0;
        loop {
            let is_well = tokio::select! {
                () = shutdown.requested() => break,
                is_well = self.look() => is_well,
            };
            failures = if is_well { 0 } else { failures + 1 };
            tokio::select! {
                () = shutdown.requested() => break,
                () = tokio::time::sleep(self.pause(failures)) => {}
            }
        }
        // A program that was dropped is still ending.
        self.programs.ended().await;
    }

    /// Asks once, unless a shutdown is requested first; gives whether all went well.
    pub async fn look_once(self, shutdown: Shutdown) -> bool {
        let is_well = tokio::select! {
            () = shutdown.requested() => true,
            is_well = self.look() => is_well,
        };
        self.programs.ended().await;
        is_well
    }

    /// Asks once, and logs what came of it; gives whether all went well.
    async fn look(&self) -> bool {
        let section = self.section.name.as_str();
        let redacted = |text: &str| Redactor::new(&self.discover.secrets()).redact(text);
        match self.ask().await {
            Ok(Discovered { new, known, first_skipped: None, .. }) => {
                tracing::info!(section, new, known, "discovered");
                true
            }
            Ok(Discovered { new, known, skipped, first_skipped: Some(why) }) => {
                let why = redacted(&why);
                tracing::warn!(section, new, known, skipped, why, "discovered; some lines are no jobs");
                true
            }
            Err(failure) => {
                let why = redacted(&failure.message);
                tracing::error!(section, why, "discover failed; it is tried again");
                false
            }
        }
    }

    fn pause(&self, failures: u32) -> Duration {
        let interval = self.discover.pace.interval;
        if failures == 0 {
            return interval;
        }
        let longer = interval.max(Duration::from_secs(1)).saturating_mul(1 << (failures - 1).min(20));
        longer.min(LONGEST_PAUSE.max(interval))
    }

    /// Asks once, and submits what is new. What is listed before a failure or the end of its time counts: jobs are known by
    /// their ids.
    pub async fn ask(&self) -> Result<Discovered, Failure> {
        let mut batch = Batch::new(self);
        let limit = TimeLimit::from_now(self.discover.pace.timeout);
        let listed = match &self.discover.place {
            Place::Command(program) => self.read_program(program, &mut batch, limit).await,
            Place::Url(server) => read_server(server, &mut batch, limit).await,
        };
        batch.submit().await?;
        listed.map(|()| batch.found)
    }

    async fn read_program(
        &self,
        program: &Program<Nothing>,
        batch: &mut Batch<'_>,
        limit: TimeLimit,
    ) -> Result<(), Failure> {
        let invocation = limit.within(program.invocation(&Nothing)).await??;
        let watch = Watch::with(Arc::new(Redactor::new(&program.secrets(&Nothing))));
        let mut child = invocation.start(Start { watch, ..Start::new(&self.programs, MAX_JOB_BYTES) })?;
        loop {
            match limit.within(child.block()).await? {
                Ok(Some(block)) => batch.take(block).await?,
                Ok(None) => break,
                Err(Cut::Overlong) => {
                    child.skip_line();
                    batch.skip_line();
                }
                Err(Cut::Io(error)) => {
                    return Err(Failure::retryable(format!("cannot read the program's output: {error}")));
                }
            }
        }
        batch.finish();
        let end = limit.within(child.finish()).await??;
        if end.is_success() { Ok(()) } else { Err(end.failure()) }
    }

    /// Reads one line; a blank one is none.
    fn job_of(&self, line: &[u8]) -> Option<Result<NewRun, String>> {
        (!line.trim_ascii().is_empty()).then(|| self.job(line))
    }

    fn job(&self, line: &[u8]) -> Result<NewRun, String> {
        let Section { name, categories, .. } = &*self.section;
        let only = match categories.as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        };
        let job = run::Job::parse(line, only).map_err(|error| {
            if matches!(error, JobError::NoCategory) {
                format!("it has no category, and process.{name} has several")
            } else {
                format!("it is no job: {error}")
            }
        })?;
        if job.external_id.is_none() {
            return Err("it has no external_id, by which it would be known again".to_owned());
        }
        match &job.category {
            Some(category) if !categories.contains(category) => {
                Err(format!("category {category:?} is not one of process.{name}"))
            }
            _ => Ok(NewRun::of_job(job, self.data.now())),
        }
    }
}

async fn read_server(server: &Server<Nothing>, batch: &mut Batch<'_>, limit: TimeLimit) -> Result<(), Failure> {
    let mut answer = limit.within(server.ask(&Nothing, None)).await??;
    while let Some(piece) = limit.within(answer.chunk()).await?? {
        batch.take(&piece).await?;
    }
    batch.finish();
    Ok(())
}

/// When a listing has taken too long. Only what the lister is waited for is cut off: submitting has limits of its own.
#[derive(Clone, Copy)]
struct TimeLimit {
    until: Instant,
    span: Duration,
}

impl TimeLimit {
    fn from_now(span: Duration) -> Self {
        Self { until: Instant::now() + span, span }
    }

    async fn within<T>(self, asked: impl Future<Output = T>) -> Result<T, Failure> {
        let answered = tokio::time::timeout_at(self.until, asked).await;
        answered.map_err(|_| Failure::retryable(format!("the listing took longer than {:?}", self.span)))
    }
}

/// Jobs that are to be submitted together.
struct Batch<'a> {
    discovery: &'a Discovery,
    lines: Lines,
    jobs: Vec<NewRun>,
    bytes: usize,
    found: Discovered,
}

impl<'a> Batch<'a> {
    fn new(discovery: &'a Discovery) -> Self {
        let (lines, found) = (Lines::new(MAX_JOB_BYTES), Discovered::default());
        Self { discovery, lines, jobs: Vec::new(), bytes: 0, found }
    }

    /// Takes a piece of the listing, and submits what has piled up.
    async fn take(&mut self, mut piece: &[u8]) -> Result<(), Failure> {
        loop {
            let job = match self.lines.next(&mut piece) {
                Ok(Some(line)) => self.discovery.job_of(line),
                Ok(None) => return Ok(()),
                Err(Overlong) => {
                    self.lines.skip_line();
                    Some(Err(TOO_LONG.to_owned()))
                }
            };
            self.add(job);
            if self.jobs.len() >= BATCH || self.bytes >= BATCH_BYTES {
                self.submit().await?;
            }
        }
    }

    /// Takes what is left after the last line break.
    fn finish(&mut self) {
        let job = self.lines.finish().and_then(|line| self.discovery.job_of(line));
        self.add(job);
    }

    /// Counts a line that was too long to be read.
    fn skip_line(&mut self) {
        self.lines.count_skipped();
        self.add(Some(Err(TOO_LONG.to_owned())));
    }

    fn add(&mut self, job: Option<Result<NewRun, String>>) {
        match job {
            None => {}
            Some(Ok(job)) => {
                self.bytes += job.payload.as_ref().map_or(0, String::len);
                self.jobs.push(job);
            }
            Some(Err(why)) => {
                self.found.skipped += 1;
                let number = self.lines.number();
                let text = || cut(&one_line(&format!("line {number}: {why}")), 400);
                self.found.first_skipped.get_or_insert_with(text);
            }
        }
    }

    async fn submit(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() {
            return Ok(());
        }
        let submitted = self.discovery.data.submit_discovered(jobs).await;
        for job in submitted.map_err(|error| Failure::retryable(format!("cannot submit: {error}")))? {
            *(if job.existing { &mut self.found.known } else { &mut self.found.new }) += 1;
        }
        Ok(())
    }
}
