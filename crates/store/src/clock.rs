//! The only place that asks what time it is.
//!
//! On PostgreSQL the time is the server's: the offset is sampled at connect and every minute, so that a host whose clock
//! is wrong cannot steal or hold a lease.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::time::Timestamp;

pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// This machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Timestamp {
        jiff::Timestamp::now().into()
    }
}

/// A clock that stands still until told otherwise, for tests.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.micros())))
    }

    pub fn advance(&self, span: Duration) {
        let moved = self.now().saturating_add(span);
        self.0.store(moved.micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A local clock corrected by how far the database server's is ahead of it.
#[derive(Debug)]
pub(crate) struct FollowingClock {
    local: Arc<dyn Clock>,
    ahead: AtomicI64,
}

impl FollowingClock {
    pub(crate) fn new(local: Arc<dyn Clock>) -> Self {
        Self { local, ahead: AtomicI64::new(0) }
    }

    pub(crate) fn local(&self) -> Timestamp {
        self.local.now()
    }

    /// Takes a sample: the server said `server` somewhere between local `before` and `after`.
    pub(crate) fn sample(&self, before: Timestamp, server: Timestamp, after: Timestamp) {
        let middle = before.micros().midpoint(after.micros());
        self.ahead.store(server.micros().saturating_sub(middle), Ordering::SeqCst);
    }
}

impl Clock for FollowingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.local.now().micros().saturating_add(self.ahead.load(Ordering::SeqCst)))
    }
}
