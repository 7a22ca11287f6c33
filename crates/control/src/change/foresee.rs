//! What an operation would do. Nothing is written, so this needs no more than a view.

use std::sync::atomic::Ordering;

use super::operate::Watch;
use super::plan::Foreseen;
use super::select::Selection;
use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{Halt, Report};

impl Insight {
    /// Says what a selection would change, and with which version each of those was seen.
    pub(super) async fn foresee(
        &self,
        name: &'static str,
        mut selection: impl Selection,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<(Report, Foreseen)> {
        let (mut report, mut planned) = (Report::new(name, true), Foreseen::default());
        loop {
            let judged = async { self.judge(selection.next().await?, audit, u64::MAX).await };
            let judged = match judged.await {
                Ok(judged) => judged,
                Err(error) if report.matched == 0 => return Err(error),
                Err(error) => {
                    report.halt = Some(Halt::Fault(error));
                    break;
                }
            };
            if judged.is_empty() {
                break;
            }
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            judged.add_to(&mut report, &mut planned);
            (watch.progress)(report.matched);
            if watch.stop_after.is_some_and(|enough| report.count_changed() > enough) {
                break;
            }
        }
        Ok((report, planned))
    }

    /// Says what the first `limit` changes of a selection would be. What comes after them is counted by the rules alone, and the
    /// raw sink is not asked about it.
    pub(super) async fn foresee_first(
        &self,
        name: &'static str,
        mut selection: impl Selection,
        limit: u64,
        audit: &Audit,
        watch: Watch<'_>,
    ) -> Result<(Report, Foreseen)> {
        let (mut report, mut planned, mut beyond) = (Report::new(name, true), Foreseen::default(), 0);
        loop {
            let chunk = selection.next().await?;
            if chunk.is_empty() {
                break;
            }
            if watch.cancelled.load(Ordering::SeqCst) {
                report.halt = Some(Halt::Interrupted);
                break;
            }
            let wanted = limit.saturating_sub(report.count_changed());
            let mut judged = self.judge(chunk, audit, wanted).await?;
            beyond += judged.cut_after(wanted);
            judged.add_to(&mut report, &mut planned);
            (watch.progress)(report.matched + beyond);
        }
        report.beyond_limit = Some(beyond);
        Ok((report, planned))
    }
}
