//! New identities, made from the store's clock so that they sort by time, also within one microsecond.

use redrive_core::id::{OpId, RunId, TaskId};
use redrive_core::time::Timestamp;
use uuid::{ContextV7, Uuid};

#[derive(Debug)]
pub(crate) struct Ids(std::sync::Mutex<ContextV7>);

impl Default for Ids {
    fn default() -> Self {
        Self(std::sync::Mutex::new(ContextV7::new()))
    }
}

impl Ids {
    fn next(&self, now: Timestamp) -> Uuid {
        let micros = u64::try_from(now.micros()).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000 * 1000).unwrap_or(0);
        let context = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Uuid::new_v7(uuid::Timestamp::from_unix(&*context, micros / 1_000_000, nanos))
    }

    pub(crate) fn run(&self, now: Timestamp) -> RunId {
        RunId::from_uuid(self.next(now))
    }

    pub(crate) fn task(&self, now: Timestamp) -> TaskId {
        TaskId::from_uuid(self.next(now))
    }

    pub(crate) fn operation(&self, now: Timestamp) -> OpId {
        OpId::from_uuid(self.next(now))
    }
}
