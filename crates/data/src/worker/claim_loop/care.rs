//! Looking after everything but the attempts: rests that are over, what workloads need, what other workers left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::count;
use tokio::time::Instant;

use super::Worker;
use crate::error::Result;
use crate::worker::sweep;

impl Worker {
    /// Looks after everything but the attempts.
    pub(super) async fn look_after(&mut self) -> Result<()> {
        self.recover().await?;
        self.sweep().await?;
        self.check().await
    }

    /// Asks each workload that could claim whether what it needs is there.
    async fn check(&mut self) -> Result<()> {
        for nth in 0..self.served.len() {
            if !self.served[nth].wants_check() {
                continue;
            }
            match self.served[nth].workload.is_ready().await {
                Ok(()) => self.served[nth].checked(),
                Err(error) => self.fault(nth, "looking at what it needs", error)?,
            }
        }
        Ok(())
    }

    /// Asks each workload whose rest is over whether what failed is well again.
    async fn recover(&mut self) -> Result<()> {
        for nth in 0..self.served.len() {
            let served = &mut self.served[nth];
            if served.is_out || served.is_resting() {
                continue;
            }
            let Some(fault) = served.fault.take() else { continue };
            if let Err(error) = served.workload.has_recovered(&fault).await {
                self.fault(nth, "looking whether all is well again", error)?;
            }
        }
        Ok(())
    }

    /// Ends what other workers left behind, once in a while.
    async fn sweep(&mut self) -> Result<()> {
        if Instant::now() < self.sweep_at {
            return Ok(());
        }
        self.sweep_at = Instant::now() + (self.options.terms.lease / 4).max(Duration::from_millis(100));
        let mut swept = BTreeSet::new();
        for nth in 0..self.served.len() {
            // One workload of a kind ends the runs of all.
            if self.served[nth].is_out
                || self.served[nth].is_resting()
                || !swept.insert(self.served[nth].workload.kind())
            {
                continue;
            }
            match sweep::end_expired(&self.data, &self.served[nth].workload).await {
                Ok(ended) => self.done.abandoned += count::of(ended),
                Err(error) => self.fault(nth, "ending what was abandoned", error)?,
            }
            self.served[nth].workload.tidy().await;
        }
        Ok(())
    }
}
