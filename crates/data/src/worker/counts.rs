//! What a worker has done, counted.

use redrive_core::failure::ErrorClass;
use serde::Serialize;

use super::attempt_end::AttemptEnd;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WorkerCounts {
    pub claimed: u64,
    pub accepted: u64,
    pub rejected: u64,
    /// Of the rejected: the source said "slow down".
    pub rate_limited: u64,
    pub released: u64,
    /// Runs that an operator cancelled while they were under way.
    pub cancelled: u64,
    /// Results that came too late, and attempts whose lease was lost.
    pub lost: u64,
    pub records: u64,
    /// Attempts of other workers that had fallen silent.
    pub abandoned: u64,
    /// Attempts that other workers still had under way when this one had drained its workloads.
    pub elsewhere: Option<u64>,
}

impl WorkerCounts {
    pub(super) fn add(&mut self, end: &AttemptEnd) {
        match end {
            AttemptEnd::Accepted { records } => {
                self.accepted += 1;
                self.records += records;
            }
            AttemptEnd::Rejected { class } => {
                self.rejected += 1;
                self.rate_limited += u64::from(*class == ErrorClass::RateLimited);
            }
            AttemptEnd::Refused(_) | AttemptEnd::Lost => self.lost += 1,
            AttemptEnd::Cancelled => self.cancelled += 1,
            AttemptEnd::Released | AttemptEnd::RateLimited => self.released += 1,
        }
    }
}
