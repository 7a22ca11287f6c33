//! What a worker has done, counted.

use redrive_core::failure::ErrorClass;
use serde::Serialize;

use super::attempt::End;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub claimed: u64,
    pub accepted: u64,
    pub rejected: u64,
    /// Of the rejected: told by the source to slow down.
    pub rate_limited: u64,
    pub released: u64,
    /// Verdicts that came too late, and attempts whose lease was lost.
    pub lost: u64,
    pub records: u64,
    /// Attempts of other workers that had fallen silent.
    pub abandoned: u64,
    /// Attempts of its sources that others still had under way when it had drained them.
    pub elsewhere: Option<u64>,
}

impl Tally {
    pub(super) fn add(&mut self, end: &End) {
        match end {
            End::Accepted { records } => {
                self.accepted += 1;
                self.records += records;
            }
            End::Rejected { class } => {
                self.rejected += 1;
                self.rate_limited += u64::from(*class == ErrorClass::RateLimited);
            }
            End::Refused(_) | End::Lost => self.lost += 1,
            End::Released => self.released += 1,
        }
    }
}
