//! The only place that asks what time it is.
//!
//! On PostgreSQL the time is the server's: a clock that nobody sets, plus an offset to the server's clock, which is
//! sampled again and again. So neither a host whose wall clock is wrong, nor one whose wall clock is set, can steal a lease
//! or lose one. For SQLite see `db/sqlite_clock.rs`. The rules of both are in [`redrive_core::clock`].

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_core::clock::{Followed, Offset, Sample, Steady, follow, lease_from};
use redrive_core::time::Timestamp;

pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// A clock that nobody sets. One that can be held still by a test serves as it is.
    fn steady(&self, _sleep: Sleep) -> Steady {
        Steady::from_micros(self.now().micros())
    }

    /// Which run of the host's system the steady clock belongs to; none where that cannot be told.
    fn boot(&self) -> Option<String> {
        None
    }
}

/// Whether a steady clock counts the time that the host sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    Counts,
    Stops,
}

/// This machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Timestamp {
        jiff::Timestamp::now().into()
    }

    fn steady(&self, sleep: Sleep) -> Steady {
        let id = match sleep {
            #[cfg(target_os = "linux")]
            Sleep::Counts => rustix::time::ClockId::Boottime,
            #[cfg(not(target_os = "linux"))]
            Sleep::Counts => rustix::time::ClockId::Monotonic,
            Sleep::Stops => rustix::time::ClockId::Monotonic,
        };
        let read = rustix::time::clock_gettime(id);
        Steady::from_micros(read.tv_sec.saturating_mul(1_000_000).saturating_add(read.tv_nsec / 1_000))
    }

    fn boot(&self) -> Option<String> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }
}

/// A clock that stands still until told otherwise, for tests.
#[derive(Debug, Clone)]
pub struct ManualClock {
    steady: Arc<AtomicI64>,
    /// How far the wall clock was set ahead.
    set: Arc<AtomicI64>,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self { steady: Arc::new(AtomicI64::new(now.micros())), set: Arc::default() }
    }

    pub fn advance(&self, span: Duration) {
        let moved = Timestamp::from_micros(self.steady.load(Ordering::SeqCst)).saturating_add(span);
        self.steady.store(moved.micros(), Ordering::SeqCst);
    }

    /// The same steady clock beside a wall clock that is set otherwise, as one process alone may see it.
    pub fn with_wall_set_by(&self, micros: i64) -> Self {
        let set = self.set.load(Ordering::SeqCst).saturating_add(micros);
        Self { steady: Arc::clone(&self.steady), set: Arc::new(AtomicI64::new(set)) }
    }

    /// Sets the wall clock by so many microseconds; the steady clock goes on as it was.
    pub fn set_wall_by(&self, micros: i64) {
        self.set.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.steady(Sleep::Counts).at(self.set.load(Ordering::SeqCst))
    }

    fn steady(&self, _: Sleep) -> Steady {
        Steady::from_micros(self.steady.load(Ordering::SeqCst))
    }

    fn boot(&self) -> Option<String> {
        Some("a test".to_owned())
    }
}

/// A database server's clock, as far as it is known here.
#[derive(Debug)]
pub(crate) struct ServerClock {
    local: Arc<dyn Clock>,
    known: Mutex<Option<Offset>>,
    /// The last step of the server's clock.
    step: Mutex<Option<Step>>,
}

/// A server's clock that was set, as it was seen here.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: Steady,
    /// The offset before.
    ahead: i64,
}

/// A step of a server's clock that counts, in microseconds. Leases are longer by far.
pub(crate) const STEP: i64 = 1_000_000;

impl ServerClock {
    pub(crate) fn new(local: Arc<dyn Clock>) -> Self {
        Self { local, known: Mutex::new(None), step: Mutex::new(None) }
    }

    /// The clock between whose readings a sample is taken.
    pub(crate) fn steady_now(&self) -> Steady {
        self.local.steady(Sleep::Counts)
    }

    /// Takes a sample; gives what is known now and what the sample did.
    pub(crate) fn take(&self, sample: Sample) -> (Offset, Followed) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (offset, followed) =
            known.map_or_else(|| (Offset::of(sample), Followed::Agreed), |known| follow(known, sample));
        *known = Some(offset);
        if let Followed::Jumped { by } = followed
            && by.saturating_abs() >= STEP
        {
            self.remember(Step { at: self.steady_now(), ahead: offset.ahead().saturating_sub(by) });
        }
        (offset, followed)
    }

    /// Takes up what another process has seen: that the server's clock was set so long ago, by so many microseconds.
    pub(crate) fn was_set(&self, ago: Duration, by: i64) {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known {
            self.remember(Step { at: self.steady_now().earlier_by(ago), ahead: known.ahead().saturating_sub(by) });
        }
    }

    fn remember(&self, step: Step) {
        let mut known = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known.at < step.at) {
            *known = Some(step);
        }
    }

    fn step(&self) -> Option<Step> {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago the server's clock was seen to have been set, if ever.
    pub(crate) fn since_set(&self) -> Option<Duration> {
        self.step().map(|step| self.steady_now().elapsed_since(step.at))
    }

    /// From when a lease counts that is given or prolonged now.
    pub(crate) fn lease_from(&self) -> Timestamp {
        let (now, steady) = (self.now(), self.steady_now());
        self.step().map_or(now, |step| lease_from(now, steady.at(step.ahead), steady.elapsed_since(step.at)))
    }
}

impl Clock for ServerClock {
    /// The server's time; until the first sample, this host's.
    fn now(&self) -> Timestamp {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.map_or_else(|| self.local.now(), |known| self.steady_now().at(known.ahead()))
    }
}
