//! A claim by long poll: answers at once where there is work, otherwise when there is some or when the time is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::run::Workload;
use redrive_store::{ClaimedRun, InFlightLimit, OutsideClaim, Queued, RunClaim, Wakeups};
use tokio::sync::watch;
use tokio::time::Instant;

use super::slip::{LONGEST_WAIT, MAX_RUNS, check_name};
use super::{ACK_WINDOW, BEAT, Caller, OutsideWorkers, Slip};
use crate::error::Result;
use crate::process::{Section, log};

/// How often a claim that waits looks by itself: on SQLite another process's jobs are not announced.
const POLL: Duration = Duration::from_secs(1);

/// How often a worker that waits is noted as being there.
const SEEN_EVERY: Duration = Duration::from_secs(10);

/// What an outside worker asks for.
#[derive(Debug, Clone)]
pub struct ClaimAsk {
    pub worker: String,
    /// The worker's own name of this claim: the same again gives the same runs.
    pub claim_id: String,
    /// None for all that the caller may have.
    pub categories: Option<Vec<String>>,
    pub max: u32,
}

/// A run that is given to an outside worker, and its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenRun {
    pub claimed: ClaimedRun,
    /// How long the worker has until it must have spoken.
    pub lease: Duration,
    pub beat: Duration,
    /// How long the attempt may take from now.
    pub deadline: Duration,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    pub runs: Vec<GivenRun>,
    /// The worker is to take on nothing more.
    pub drain: bool,
}

/// What a worker asks of one section.
struct Share {
    section: Arc<Section>,
    categories: Vec<String>,
}

impl Share {
    fn claim(&self, worker: &str) -> RunClaim {
        let Section { max_in_flight, categories, .. } = &*self.section;
        RunClaim {
            categories: Some(self.categories.clone()),
            max_in_flight: max_in_flight.map(|most| InFlightLimit { most, categories: Some(categories.clone()) }),
            ..RunClaim::new(Workload::Process, worker, 0, ACK_WINDOW)
        }
    }
}

impl OutsideWorkers {
    /// Gives a worker runs, at once or within `wait`. What `stopping` ends is answered as it is then, with `drain`.
    pub async fn claim(
        &self,
        ask: &ClaimAsk,
        caller: &Caller,
        wait: Duration,
        stopping: impl Future<Output = ()>,
    ) -> Result<Result<Delivery, Slip>> {
        if wait > LONGEST_WAIT {
            return Ok(Err(Slip::LongWait));
        }
        let shares = match self.shares(ask, caller) {
            Ok(shares) => shares,
            Err(slip) => return Ok(Err(slip)),
        };
        let asks_for: Vec<String> = shares.iter().flat_map(|share| share.categories.clone()).collect();
        let until = Instant::now() + wait;
        let mut wakeups = self.data.wakeups();
        let mut stopping = std::pin::pin!(stopping);
        let (mut seen, mut is_first) = (None::<(Instant, bool)>, true);
        loop {
            let before = wakeups.borrow_and_update().of(Workload::Process);
            let drain = match seen {
                Some((at, drain)) if at.elapsed() < SEEN_EVERY => drain,
                Some(_) | None => {
                    let drain = self.meet(&ask.worker, caller, Some(asks_for.clone())).await?;
                    seen = Some((Instant::now(), drain));
                    drain
                }
            };
            let runs = match is_first || drain || self.is_any_queued(&asks_for).await? {
                true => self.take(ask, &shares, drain).await?,
                false => vec![],
            };
            is_first = false;
            if !runs.is_empty() || drain {
                return Ok(Ok(Delivery { runs, drain }));
            }
            let now = Instant::now();
            if now >= until {
                return Ok(Ok(Delivery::default()));
            }
            tokio::select! {
                () = &mut stopping => return Ok(Ok(Delivery { runs: vec![], drain: true })),
                () = woken(&mut wakeups, before) => {}
                () = tokio::time::sleep_until(until.min(now + POLL)) => {}
            }
        }
    }

    /// What is asked of each section, beginning with another one each time.
    fn shares(&self, ask: &ClaimAsk, caller: &Caller) -> Result<Vec<Share>, Slip> {
        check_name("worker", &ask.worker)?;
        check_name("claim_id", &ask.claim_id)?;
        if ask.max == 0 {
            return Err(Slip::NoRoom);
        }
        if ask.max > u32::try_from(MAX_RUNS).unwrap_or(u32::MAX) {
            return Err(Slip::TooMuch);
        }
        for category in ask.categories.iter().flatten() {
            let section = self.sections.of(category).filter(|section| section.handler.is_none());
            if section.is_none() {
                return Err(Slip::UnknownCategory(category.clone()));
            }
            if !caller.may(category) {
                return Err(Slip::Forbidden(category.clone()));
            }
        }
        let is_asked = |category: &&String| {
            caller.may(category) && ask.categories.as_ref().is_none_or(|asked| asked.contains(category))
        };
        let mut shares: Vec<Share> = self
            .sections()
            .map(|section| Share {
                section: Arc::clone(section),
                categories: section.categories.iter().filter(is_asked).cloned().collect(),
            })
            .filter(|share| !share.categories.is_empty())
            .collect();
        if !shares.is_empty() {
            let first = self.turn.fetch_add(1, Ordering::Relaxed) % shares.len();
            shares.rotate_left(first);
        }
        Ok(shares)
    }

    async fn take(&self, ask: &ClaimAsk, shares: &[Share], drain: bool) -> Result<Vec<GivenRun>> {
        let claims: Vec<RunClaim> = shares.iter().map(|share| share.claim(&ask.worker)).collect();
        let claim = OutsideClaim {
            worker: ask.worker.clone(),
            claim_id: ask.claim_id.clone(),
            // What it was given before it was asked to drain is given again.
            shares: if drain { vec![] } else { claims },
            limit: ask.max,
            window: ACK_WINDOW,
        };
        let given = self.data.deliver_runs(claim).await?;
        given.iter().for_each(|claimed| log::sent(&claimed.run));
        let now = self.data.now();
        let terms = |claimed: ClaimedRun| {
            let run = &claimed.run;
            let end = run.started_at.unwrap_or(now).saturating_add(self.timeout(run));
            let lease = run.lease_until.map_or(Duration::ZERO, |until| until.since(now));
            GivenRun { lease, beat: BEAT, deadline: end.since(now), claimed }
        };
        Ok(given.into_iter().map(terms).collect())
    }

    /// Whether something is queued that the worker could be given: a look, so that waiting workers write nothing.
    async fn is_any_queued(&self, asks_for: &[String]) -> Result<bool> {
        let backlog = self.data.view().run_backlog(Workload::Process, Some(asks_for.to_vec()), None).await?;
        Ok(backlog.queued == Queued::Claimable)
    }
}

/// Returns when there may be new jobs since their announcements stood at `before`.
async fn woken(wakeups: &mut watch::Receiver<Wakeups>, before: u64) {
    // Its sender lives as long as the store; without one only the time ends the wait.
    if wakeups.wait_for(|now| now.of(Workload::Process) != before).await.is_err() {
        std::future::pending().await
    }
}
