//! New identities, made from the store's clock so that they sort by time, also within one microsecond.

use std::sync::atomic::{AtomicU64, Ordering};

use redrive_core::id::{HoldId, NotificationId, OpId, RunId, TaskId, TokenId};
use redrive_core::time::Timestamp;
use uuid::{ContextV7, Uuid};

/// How many bits of a run's number count up; the others are random.
const COUNTING_BITS: u32 = 28;
const RANDOM_BITS: u32 = 62 - COUNTING_BITS;

#[derive(Debug)]
pub(crate) struct Ids {
    context: std::sync::Mutex<ContextV7>,
    runs: AtomicU64,
    /// Keeps the numbers of two processes apart.
    seed: u64,
}

impl Default for Ids {
    fn default() -> Self {
        let (seed, _) = Uuid::now_v7().as_u64_pair();
        let (_, random) = Uuid::now_v7().as_u64_pair();
        Self {
            context: std::sync::Mutex::new(ContextV7::new()),
            runs: AtomicU64::new(0),
            seed: seed ^ random.rotate_left(17),
        }
    }
}

impl Ids {
    fn next(&self, now: Timestamp) -> Uuid {
        let micros = u64::try_from(now.micros()).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000 * 1000).unwrap_or(0);
        let context = self.context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Uuid::new_v7(uuid::Timestamp::from_unix(&*context, micros / 1_000_000, nanos))
    }

    /// The identity of a run that was submitted, or for an extraction claimed, at this moment. Runs of one process and
    /// moment sort in the order in which they are made.
    pub(crate) fn run(&self, at: Timestamp) -> RunId {
        let nth = self.runs.fetch_add(1, Ordering::Relaxed);
        RunId::new(at, (nth << RANDOM_BITS) | (spread(self.seed ^ nth) >> (64 - RANDOM_BITS)))
    }

    pub(crate) fn task(&self, now: Timestamp) -> TaskId {
        TaskId::from_uuid(self.next(now))
    }

    pub(crate) fn operation(&self, now: Timestamp) -> OpId {
        OpId::from_uuid(self.next(now))
    }

    pub(crate) fn token(&self, now: Timestamp) -> TokenId {
        TokenId::from_uuid(self.next(now))
    }

    pub(crate) fn hold(&self, now: Timestamp) -> HoldId {
        HoldId::from_uuid(self.next(now))
    }

    pub(crate) fn notification(&self, now: Timestamp) -> NotificationId {
        NotificationId::from_uuid(self.next(now))
    }
}

/// Spreads a number over all 64 bits (the finaliser of SplitMix64).
fn spread(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
