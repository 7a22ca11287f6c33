//! SQLite: one writer thread with group commit, and a few readers.
//!
//! The writer takes whatever is waiting into one transaction and commits it with one sync, so that full durability is
//! affordable with many callers. Each piece of work has its own savepoint: one that fails takes nothing else with it.
//! Other processes wait their turn in the busy handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use redrive_metrics::{Event, Metrics};
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::blocking::blocking;
use crate::error::{Error, Result};
use crate::migrate;

use super::sqlite_clock::{HostClock, TxClock};
use super::sqlite_file::{FileSystem, open_reader, open_wal_anchor, open_writer, schema_of, unavailable, user_version};
use super::sqlite_lock::{gave_up, heeding};
use super::sqlite_statements::sqlite_fault;
use super::sqlite_watch::FileWatch;
use super::tx::Tx;
use super::wakeups::{Tells, Wakeups};
use super::work::{Given, Work};
use super::{Options, Schema};

/// The most that is taken into one commit.
const GROUP: usize = 256;

/// What became of a piece of work, to be told once the commit is durable, or why it is not.
type Reply = Box<dyn FnOnce(Option<Error>) + Send>;
/// A piece of work, given the connection inside a transaction, or why there is none.
type Job = Box<dyn FnOnce(Result<Turn<'_>>) -> Reply + Send>;

/// A piece of work's turn inside a transaction.
struct Turn<'a> {
    connection: &'a mut Connection,
    isolation: Isolation,
    clock: TxClock,
}

/// Whether a piece of work has the transaction to itself. A savepoint makes SQLite copy every page that is touched, so it
/// is only there where another caller's work must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    Own,
    Savepoint,
}

#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<std::thread::JoinHandle<()>>,
    readers: Arc<Readers>,
    watch: Arc<FileWatch>,
    anchor: Option<Mutex<Connection>>,
    clock: HostClock,
    wake: Arc<watch::Sender<Wakeups>>,
    cancelled: Arc<watch::Sender<u64>>,
    metrics: Metrics,
}

/// A piece of work that is done, and what it leaves to be told and counted once it is durable.
struct Done<T> {
    value: T,
    tells: Tells,
    events: Vec<Event>,
}

/// The writer, or where there is none the anchor, is the last to close, so that it can fold the write-ahead log into the file and leave nothing beside it.
impl Drop for Sqlite {
    fn drop(&mut self) {
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        if let Some(anchor) = self.anchor.take() {
            self.watch.close(anchor.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    watch: Arc<FileWatch>,
    file_system: FileSystem,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Sqlite {
    pub(super) async fn open(path: &Path, create: bool, options: &Options) -> Result<Self> {
        let (owned, waiting) = (path.to_owned(), options.hurry.clone());
        let connection = blocking(move || heeding(&waiting, || open_writer(&owned, create))).await?;
        let watch = Arc::new(FileWatch::of(path)?);
        let (jobs, inbox) = mpsc::channel();
        let clock = HostClock::new(Arc::clone(&options.clock), options.follow_database_clock);
        let writer = std::thread::Builder::new()
            .name("redrive-sqlite".to_owned())
            .spawn({
                let (hurry, watched, clock) = (options.hurry.clone(), Arc::clone(&watch), clock.clone());
                move || heeding(&hurry, || write_loop(connection, &inbox, &watched, &clock))
            })
            .map_err(|error| unavailable(path, &error))?;
        let readers = Readers::new(path, FileSystem::Writable, options.connections, &watch);
        let (wake, cancelled) = (Arc::new(watch::channel(Wakeups::default()).0), Arc::new(watch::channel(0).0));
        let (path, jobs, writer) = (path.to_owned(), Some(jobs), Some(writer));
        let metrics = options.metrics.clone();
        Ok(Self { path, jobs, writer, readers, watch, anchor: None, clock, wake, cancelled, metrics })
    }

    /// Opens a file that must be there, without a writer: every write is refused.
    pub(super) async fn open_to_read(path: &Path, options: &Options) -> Result<Self> {
        let owned = path.to_owned();
        let (anchor, file_system) = blocking(move || open_wal_anchor(&owned)).await?;
        let watch = Arc::new(FileWatch::of(path)?);
        let readers = Readers::new(path, file_system, options.connections, &watch);
        let (wake, cancelled) = (Arc::new(watch::channel(Wakeups::default()).0), Arc::new(watch::channel(0).0));
        let (path, anchor) = (path.to_owned(), Some(Mutex::new(anchor)));
        let clock = HostClock::new(Arc::clone(&options.clock), options.follow_database_clock);
        let metrics = options.metrics.clone();
        Ok(Self { path, jobs: None, writer: None, readers, watch, anchor, clock, wake, cancelled, metrics })
    }

    pub(super) fn wakeups(&self) -> watch::Receiver<Wakeups> {
        self.wake.subscribe()
    }

    pub(super) fn cancels(&self) -> watch::Receiver<u64> {
        self.cancelled.subscribe()
    }

    pub(super) async fn write(&self, name: &'static str, work: Work) -> Result<Given> {
        self.submit(name, move |connection, clock| {
            let mut tx = Tx::Sqlite { connection, name, tells: Tells::default(), events: vec![], clock };
            let value = ready(work(&mut tx))?;
            let Tx::Sqlite { tells, events, .. } = tx else { unreachable!("a transaction changed its kind") };
            Ok(Done { value, tells, events })
        })
        .await
    }

    /// Hands work to the writer thread, which does it in a savepoint of its own; what it gives comes back after the commit.
    /// The work says beside its value what this process's waiters are to be told, and what it is to count.
    async fn submit<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Connection, TxClock) -> Result<Done<T>> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (wake, cancelled) = (Arc::clone(&self.wake), Arc::clone(&self.cancelled));
        let metrics = self.metrics.clone();
        let job: Job = Box::new(move |turn| {
            let result = turn.and_then(|turn| atomically(name, turn, work));
            Box::new(move |fault| {
                let result = match fault {
                    Some(fault) => result.and(Err(fault)),
                    None => result,
                };
                let tells = result.as_ref().map_or_else(|_| Tells::default(), |done| done.tells);
                if !tells.work.is_none() {
                    wake.send_modify(|wakeups| wakeups.count(tells.work));
                }
                if tells.cancel {
                    cancelled.send_modify(|count| *count = count.wrapping_add(1));
                }
                // The caller counts, and not this thread, for which all others wait. No caller waits any more when it
                // was cancelled; the work stands all the same.
                if let Err(Ok(done)) = reply.send(result) {
                    metrics.report(done.events);
                }
            })
        });
        let gone = |name| Error::Lost { place: String::new(), name, why: "the writer thread has ended".to_owned() };
        let result = match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => answer.await.unwrap_or_else(|_| Err(gone(name))),
            Some(Err(_)) | None => Err(gone(name)),
        };
        let done = result.map_err(|error| self.explain(error))?;
        self.metrics.report(done.events);
        Ok(done.value)
    }

    /// Names the file, or says that it is another one now: that explains every other fault.
    fn explain(&self, error: Error) -> Error {
        match self.watch.look() {
            Err(replaced) if error.is_unavailable() => replaced,
            Ok(()) | Err(_) => named(error, &self.path),
        }
    }

    pub(super) async fn read(&self, name: &'static str, work: Work) -> Result<Given> {
        let (readers, clock) = (Arc::clone(&self.readers), self.clock.clone());
        let permit = Arc::clone(&readers.permits).acquire_owned().await;
        blocking(move || {
            let _permit = permit;
            let mut connection = readers.take()?;
            let fault = |error| sqlite_fault(name, error);
            connection.execute_batch("BEGIN").map_err(fault)?;
            let clock = clock.of_reader(&connection).map_err(fault)?;
            let (tells, events) = (Tells::default(), vec![]);
            let result = ready(work(&mut Tx::Sqlite { connection: &mut connection, name, tells, events, clock }));
            connection.execute_batch("COMMIT").map_err(fault)?;
            readers.give_back(connection);
            result
        })
        .await
        .map_err(|error| self.explain(error))
    }

    pub(super) async fn migrate(&self) -> Result<(i64, i64)> {
        let place = self.path.display().to_string();
        self.submit("migrate", move |connection, _| {
            if schema_of(connection)? == Schema::Foreign {
                return Err(Error::Foreign { place });
            }
            let found = user_version(connection, &place)?;
            migrate::check_known(&place, found)?;
            let mut version = found;
            for step in migrate::steps_after(found) {
                let fault = |error| sqlite_fault("migrate", error);
                connection.execute_batch(step.sqlite).map_err(fault)?;
                connection.pragma_update(None, "user_version", step.version).map_err(fault)?;
                connection.pragma_update(None, "application_id", migrate::APPLICATION_ID).map_err(fault)?;
                version = step.version;
            }
            Ok(Done { value: (found, version), tells: Tells::default(), events: vec![] })
        })
        .await
    }

    pub(super) async fn schema(&self) -> Result<Schema> {
        let readers = Arc::clone(&self.readers);
        blocking(move || {
            let connection = readers.take()?;
            let schema = schema_of(&connection)?;
            readers.give_back(connection);
            Ok(schema)
        })
        .await
    }
}

impl Readers {
    fn new(path: &Path, file_system: FileSystem, count: usize, watch: &Arc<FileWatch>) -> Arc<Self> {
        let (permits, idle) = (Arc::new(Semaphore::new(count.max(1))), Mutex::new(Vec::new()));
        Arc::new(Self { path: path.to_owned(), watch: Arc::clone(watch), file_system, idle, permits })
    }

    fn take(&self) -> Result<Connection> {
        self.watch.look_now_and_then()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connection = open_reader(&self.path, self.file_system)?;
        // It may have been opened after another file took the place of the first.
        self.watch.look()?;
        Ok(connection)
    }

    /// Only a connection that is outside a transaction comes back; any other is closed by its drop.
    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

/// Does a piece of work whole or not at all. One that panics has failed, and fails no other.
fn atomically<T>(
    name: &'static str,
    turn: Turn<'_>,
    work: impl FnOnce(&mut Connection, TxClock) -> Result<T>,
) -> Result<T> {
    let Turn { connection, isolation, clock } = turn;
    let fault = |error| sqlite_fault(name, error);
    if isolation == Isolation::Savepoint {
        connection.execute_batch("SAVEPOINT work").map_err(fault)?;
    }
    let result = catch_unwind(AssertUnwindSafe(|| work(connection, clock)))
        .unwrap_or_else(|_| Err(Error::Statement { name, why: "it panicked; nothing was changed".to_owned() }));
    // A fault that made SQLite roll everything back has taken the savepoint too.
    if connection.is_autocommit() {
        return result;
    }
    let end = match (isolation, result.is_ok()) {
        (Isolation::Own, true) => return result,
        (Isolation::Own, false) => "ROLLBACK",
        (Isolation::Savepoint, true) => "RELEASE work",
        (Isolation::Savepoint, false) => "ROLLBACK TO work; RELEASE work",
    };
    let ended = connection.execute_batch(end).map_err(fault);
    result.and_then(|value| ended.map(|()| value))
}

fn write_loop(mut connection: Connection, inbox: &mpsc::Receiver<Job>, watch: &FileWatch, clock: &HostClock) {
    write_groups(&mut connection, inbox, watch, clock);
    watch.close(connection);
}

fn write_groups(connection: &mut Connection, inbox: &mpsc::Receiver<Job>, watch: &FileWatch, clock: &HostClock) {
    while let Ok(first) = inbox.recv() {
        let group: Vec<Job> = std::iter::once(first).chain(inbox.try_iter().take(GROUP - 1)).collect();
        if watch.look_now_and_then().is_err() {
            group.into_iter().for_each(|job| job(Err(watch.replaced()))(None));
            continue;
        }
        let clock = match begin(connection, clock) {
            Ok(clock) => clock,
            Err(error) => {
                // A caller that came while it was tried has waited as long.
                for job in group.into_iter().chain(inbox.try_iter()) {
                    let fault = match gave_up() {
                        true => Error::Stopped { place: String::new(), name: "begin" },
                        false => sqlite_fault("begin", copy_of(&error)),
                    };
                    job(Err(fault))(None);
                }
                continue;
            }
        };
        let isolation = if group.len() == 1 { Isolation::Own } else { Isolation::Savepoint };
        let mut told = Vec::with_capacity(group.len());
        let mut jobs = group.into_iter();
        for job in jobs.by_ref() {
            told.push(job(Ok(Turn { connection: &mut *connection, isolation, clock: clock.clone() })));
            if connection.is_autocommit() {
                break;
            }
        }
        if connection.is_autocommit() {
            // One that failed alone rolled back itself and tells its own error. In a group it was SQLite, for a disk that
            // is full or fails; nothing of the group may stand, and nothing more may be done outside a transaction.
            let full = || Error::Full { place: String::new() };
            told.into_iter().for_each(|tell| tell((isolation == Isolation::Savepoint).then(full)));
            jobs.for_each(|job| job(Err(full()))(None));
            continue;
        }
        let committed = connection.execute_batch("COMMIT");
        if committed.is_err() && !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        for tell in told {
            tell(committed.as_ref().err().map(|error| sqlite_fault("commit", copy_of(error))));
        }
    }
}

/// Begins a transaction, and tells by which clock. Where the file's own time has to be moved, that is done and committed first.
fn begin(connection: &Connection, clock: &HostClock) -> rusqlite::Result<TxClock> {
    let begun = || {
        loop {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            match clock.of_writer(connection)? {
                (clock, false) => return Ok(clock),
                (_, true) => connection.execute_batch("COMMIT")?,
            }
        }
    };
    begun().inspect_err(|_| {
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    })
}

fn copy_of(error: &rusqlite::Error) -> rusqlite::Error {
    if let rusqlite::Error::SqliteFailure(code, text) = error {
        return rusqlite::Error::SqliteFailure(*code, text.clone());
    }
    rusqlite::Error::ToSqlConversionFailure(error.to_string().into())
}

/// Puts the file's name into an error that knows only "the database".
fn named(mut error: Error, path: &Path) -> Error {
    if let Error::Full { place }
    | Error::ReadOnly { place, .. }
    | Error::Busy { place, .. }
    | Error::Stopped { place, .. }
    | Error::Lost { place, .. } = &mut error
    {
        *place = path.display().to_string();
    }
    error
}

/// The result of work on SQLite, where nothing ever has to be waited for.
fn ready<T>(future: BoxFuture<'_, T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("work on SQLite waited for something else"),
    }
}
