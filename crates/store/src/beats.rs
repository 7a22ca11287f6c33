//! Heartbeats: the one write that is not worth reading a run for. It agrees with `Event::Beat`; a test compares them.

use redrive_core::id::{RunId, TaskId};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Effect, Kind, Tx};
use crate::error::Result;

static BEAT: Batch = Batch::new(
    "/* beats::beat */ UPDATE runs SET last_heartbeat = @now, lease_until = @until {from} WHERE run_id = @run_id \
     AND task_id = @task_id AND state = 'running' AND lease_until > @now",
    &[("run_id", Kind::Id), ("task_id", Kind::Id), ("now", Kind::Int), ("until", Kind::Int)],
    Effect::Row,
);

pub(crate) async fn beat(
    tx: &mut Tx<'_>,
    held: &[(RunId, TaskId)],
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<bool>> {
    let columns = [
        Column::ids(held, |(run, _)| Some(run.uuid())),
        Column::ids(held, |(_, task)| Some(task.uuid())),
        Column::ints(held, |_| Some(now.micros())),
        Column::ints(held, |_| Some(until.micros())),
    ];
    tx.batch(&BEAT, &columns).await
}
