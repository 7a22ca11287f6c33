//! A worker's workload: its permits in use, its rest after a fault, and when it is asked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::workload::Workload;
use crate::error::Error;

/// How long a workload rests after something of our own failed: at first, and at the most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// How long a look at what a workload needs holds.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// What is claimed of a workload and not heard of yet.
#[derive(Debug, Default, Clone, Copy)]
struct ClaimsUnderWay {
    count: u32,
    /// The permits that they were made for.
    permits: u32,
}

/// A claim that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The permits that it was made for.
    pub permits: u32,
    /// How often its workload was woken before.
    wakes: u64,
}

/// What a workload is asked, besides claims.
#[derive(Debug)]
pub(super) enum Question {
    /// Whether what it needs is there.
    IsReady,
    /// Whether what failed is well again.
    HasRecovered(Error),
}

#[derive(Debug)]
pub(super) struct Served {
    pub workload: Arc<dyn Workload>,
    /// How many of the worker's permits its attempts use.
    pub running: Arc<AtomicU32>,
    claims: ClaimsUnderWay,
    /// Its last claim brought all that it was asked for: there may be more.
    has_more: bool,
    /// How often it was said that there may be something to claim.
    wakes: u64,
    /// When it last got permits, in the worker's count of such claims.
    pub last_turn: u64,
    /// How often in a row nothing was claimed although the backlog says that there is work.
    pub fruitless: u32,
    /// Its last claim brought less than it could have: before then, or a wake-up, there is no point in another.
    quiet_until: Option<Instant>,
    /// Nothing is claimed before then, because something of our own failed.
    rest_until: Option<Instant>,
    rest: Duration,
    /// Until then its last look at what it needs holds.
    checked_until: Option<Instant>,
    /// It is asked whether what it needs is there, or is well again; nothing is claimed until it answers.
    is_asked: bool,
    /// What failed, to be looked at after the rest.
    pub fault: Option<Error>,
    /// Nothing more is claimed of it: a draining worker goes on without it, or a reload has put another in its place.
    pub is_out: bool,
}

impl Served {
    pub(super) fn new(workload: Arc<dyn Workload>) -> Self {
        let (running, last_turn, fruitless, rest) = (Arc::default(), 0, 0, Duration::ZERO);
        Self {
            workload,
            running,
            claims: ClaimsUnderWay::default(),
            has_more: false,
            wakes: 0,
            last_turn,
            fruitless,
            quiet_until: None,
            rest_until: None,
            rest,
            checked_until: None,
            is_asked: false,
            fault: None,
            is_out: false,
        }
    }

    /// The permits for which claims are under way.
    pub(super) fn asked(&self) -> u32 {
        self.claims.permits
    }

    /// How many of the worker's permits it has: for attempts, and for claims that are under way.
    pub(super) fn permits(&self) -> u32 {
        self.running.load(Ordering::Acquire).saturating_add(self.asked())
    }

    /// Whether another claim may be made now: one at a time, or as many as `at_once` where there may be enough for all.
    pub(super) fn may_claim(&self, at_once: u32) -> bool {
        self.is_ready() && self.claims.count < if self.has_more { at_once } else { 1 }
    }

    /// A claim for so many permits begins.
    pub(super) fn asks(&mut self, permits: u32) -> Asked {
        self.claims.count += 1;
        self.claims.permits += permits;
        // Its answer says until when there is no point in another.
        self.quiet_until = None;
        Asked { permits, wakes: self.wakes }
    }

    /// A claim has ended, whatever it brought.
    pub(super) fn answered(&mut self, asked: Asked) {
        self.claims.count -= 1;
        self.claims.permits -= asked.permits;
    }

    /// A claim has brought all that it was asked for.
    pub(super) fn was_full(&mut self) {
        self.has_more = true;
    }

    /// A claim has brought less: until then there is no point in another, unless something was announced while it was under way.
    pub(super) fn was_short(&mut self, asked: Asked, until: Instant) {
        self.has_more = false;
        if self.wakes == asked.wakes {
            self.quiet_until = Some(until);
        }
    }

    pub(super) fn is_resting(&self) -> bool {
        self.rest_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether a claim may bring something now.
    fn is_ready(&self) -> bool {
        !self.is_out
            && !self.is_asked
            && !self.is_resting()
            && self.fault.is_none()
            && self.quiet_until.is_none_or(|until| Instant::now() >= until)
    }

    /// What it has to be asked before it claims again, if anything. It is being asked then.
    pub(super) fn ask(&mut self) -> Option<Question> {
        let is_over = !self.is_out && !self.is_asked && !self.is_resting();
        let question = match self.fault.take_if(|_| is_over) {
            Some(fault) => Some(Question::HasRecovered(fault)),
            None if self.is_ready() && self.checked_until.is_none_or(|until| Instant::now() >= until) => {
                Some(Question::IsReady)
            }
            None => None,
        };
        self.is_asked |= question.is_some();
        question
    }

    /// It has answered; what it needs is there, or not.
    pub(super) fn has_said(&mut self, is_ready: bool) {
        self.is_asked = false;
        self.checked_until = is_ready.then(|| Instant::now() + CHECK_EVERY);
    }

    /// There may be something to claim again.
    pub(super) fn wake(&mut self) {
        self.wakes += 1;
        self.quiet_until = None;
    }

    /// When it is to be looked at without being woken.
    pub(super) fn look_at(&self) -> Option<Instant> {
        match self.is_resting() {
            true => self.rest_until,
            // What it says wakes the loop.
            false if self.is_asked => None,
            false => self.quiet_until,
        }
    }

    /// Rests after a fault, longer each time; gives for how long, or nothing where it is at rest already.
    pub(super) fn begin_rest(&mut self, fault: Error) -> Option<Duration> {
        self.fault = Some(fault);
        self.has_more = false;
        if self.is_resting() {
            return None;
        }
        self.rest = (self.rest * 2).clamp(FIRST_REST, LONGEST_REST);
        self.rest_until = Some(Instant::now() + self.rest);
        Some(self.rest)
    }

    /// The work of others shows that all is well: the next rest is a short one.
    pub(super) fn is_well(&mut self) {
        self.rest = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use redrive_core::retry::RetryPolicy;
    use redrive_core::run::{Run, Workload as Kind};
    use redrive_store::Backlog;

    use super::*;
    use crate::error::Result;
    use crate::worker::workload::{Claimant, Claimed};

    #[derive(Debug)]
    struct Nothing;

    impl Workload for Nothing {
        fn kind(&self) -> Kind {
            Kind::Process
        }

        fn claim<'a>(&'a self, _: u32, _: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
            Box::pin(async { Ok(Claimed::nothing()) })
        }

        fn policy(&self, _: &Run) -> RetryPolicy {
            RetryPolicy::partitions()
        }

        fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
            unreachable!("nobody drains")
        }
    }

    #[test]
    fn who_is_asked_is_not_looked_at_before_the_answer() {
        let mut served = Served::new(Arc::new(Nothing));
        let first = served.asks(1);
        served.answered(first);
        served.was_short(first, Instant::now());
        assert!(served.look_at().is_some(), "it was quiet until now");
        let second = served.asks(1);
        assert_eq!(served.look_at(), None, "a claim is under way");
        served.answered(second);
        served.was_short(second, Instant::now());
        assert!(served.ask().is_some(), "it was never asked whether it is ready");
        assert_eq!(served.look_at(), None, "its answer is awaited");
        assert!(served.ask().is_none() && !served.may_claim(1));
        served.has_said(true);
        assert!(served.look_at().is_some() && served.ask().is_none() && served.may_claim(1));
    }
}
