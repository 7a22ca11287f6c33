//! Making partitions wanted that are not there yet.

use std::collections::HashMap;

use redrive_core::partition::Partition;
use redrive_core::run::Workload;

use super::commit::put_new_control;
use super::row::{NEW_NAMES, NEW_PLACE, NEW_STATE};
use crate::audit::{self, NewChange, Operation, PlacedSubject, WrittenChange};
use crate::db::columns::columns;
use crate::db::{Batch, Effect, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, transact};
use crate::series::{self, Place};

impl ControlStore {
    /// Makes partitions wanted that are not there yet; says of each whether it was new. The new ones are audited. A key
    /// given twice counts once.
    pub async fn enqueue(&self, operation: &Operation, partitions: Vec<Partition>) -> Result<Vec<bool>> {
        let mut first = HashMap::with_capacity(partitions.len());
        for (nth, partition) in partitions.iter().enumerate() {
            first.entry(partition.state.key.clone()).or_insert(nth);
        }
        let once: Vec<bool> =
            partitions.iter().enumerate().map(|(nth, partition)| first[&partition.state.key] == nth).collect();
        let unique: Vec<Partition> =
            partitions.into_iter().zip(&once).filter_map(|(partition, once)| once.then_some(partition)).collect();
        let written: Vec<WrittenChange> =
            unique.iter().map(|partition| WrittenChange::of_partition(None, partition)).collect();
        let operation = operation.clone();
        let new = transact!(self.inner, "enqueue partitions", |tx, operation, unique, written| {
            let (places, new) = insert(tx, &unique).await?;
            let made = unique.iter().zip(&*written).zip(places).zip(&new).filter(|(_, new)| **new);
            let made: Vec<NewChange<'_>> = made
                .map(|(((partition, written), place), _)| NewChange {
                    subject: PlacedSubject::Partition(&partition.state.key, place),
                    written,
                })
                .collect();
            audit::record(tx, &operation, &made).await?;
            tx.wake_for(Workload::Extract);
            Ok(new)
        })?;
        let mut new = new.into_iter();
        Ok(once.into_iter().map(|once| once && new.next().unwrap_or(false)).collect())
    }
}

static INSERT: Batch = Batch::new(
    "/* partitions::insert */
     INSERT INTO partitions ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &NEW_NAMES,
    Effect::Inserted(&["series_id", "period"]),
);

/// Inserts partitions that are not there yet; says of each where it lies and whether it was new. Keys must not repeat.
async fn insert(tx: &mut Tx<'_>, partitions: &[Partition]) -> Result<(Vec<Place>, Vec<bool>)> {
    let keys: Vec<_> = partitions.iter().map(|partition| &partition.state.key).collect();
    let places = series::ensure(tx, &keys).await?;
    let (rows, at): (Vec<&Partition>, Vec<&Place>) = (partitions.iter().collect(), places.iter().collect());
    let mut values = columns(&NEW_PLACE, &at);
    values.extend(columns(&NEW_STATE, &rows));
    let new = tx.batch(&INSERT, &values).await?;
    let inserted: Vec<(&Place, &Partition)> =
        at.into_iter().zip(rows).zip(&new).filter_map(|(row, new)| new.then_some(row)).collect();
    put_new_control(tx, &inserted).await?;
    Ok((places, new))
}
