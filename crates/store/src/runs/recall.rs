//! A claim whose commit had no answer. What it took, if it was made, is found by its task, so that no run waits for the end of a
//! lease that nobody holds.

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::Workload;

use super::bundle;
use super::claim::ClaimedRun;
use super::list;
use super::row;
use crate::db::{Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{DataStore, read};

static CLAIMED_BY: Sql = Sql::new(
    "/* runs::claimed_by */
     SELECT run_id
     FROM run_claims
     WHERE workload = ?1
       AND task_id = ?2
     ORDER BY run_id",
);

impl DataStore {
    /// What a claim has brought. Where its commit had no answer, that is read again; where nothing is found, the commit may still
    /// be under way, and it stays unknown.
    pub(super) async fn recalled(
        &self,
        claimed: Result<Vec<ClaimedRun>>,
        workload: Workload,
        task_id: TaskId,
    ) -> Result<Vec<ClaimedRun>> {
        let Err(unknown @ Error::Unknown { .. }) = claimed else { return claimed };
        match self.claimed_by(workload, task_id).await {
            Ok(found) if !found.is_empty() => {
                tracing::warn!(%workload, runs = found.len(), "a claim had no answer, and was found to be made");
                Ok(found)
            }
            Ok(_) | Err(_) => Err(unknown),
        }
    }

    /// The runs that are running under a task, with their inputs.
    pub(crate) async fn claimed_by(&self, workload: Workload, task_id: TaskId) -> Result<Vec<ClaimedRun>> {
        let view = self.view();
        read!(view, "runs of a claim", |tx| claimed_by(tx, workload, task_id))
    }
}

async fn claimed_by(tx: &mut Tx<'_>, workload: Workload, task_id: TaskId) -> Result<Vec<ClaimedRun>> {
    let params = [workload.as_str().into(), task_id.uuid().into()];
    let mut ids = tx.rows(&CLAIMED_BY, &params, |row| row.id(0).map(RunId::from_uuid)).await?;
    ids.extend(bundle::claimed_by(tx, task_id).await?);
    let mut claimed = Vec::with_capacity(ids.len());
    for run in row::get_many(tx, &ids).await? {
        let payload = list::payload(tx, run.run_id).await?;
        claimed.push(ClaimedRun { run, payload });
    }
    Ok(claimed)
}
