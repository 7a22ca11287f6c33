//! The control plane's handle: it can want, withhold and requeue. It has no way to write a run_id, a verdict or raw data.

use std::sync::Arc;

use redrive_core::id::OpId;
use redrive_core::key::{CustomerId, Source};
use redrive_core::partition::{self, ControlEvent, Event, Partition};
use redrive_core::refusal::Refused;
use redrive_core::time::Timestamp;

use crate::audit::{self, Operation, WrittenChange};
use crate::cooldowns::{self, Cooldown};
use crate::error::Result;
use crate::store::Inner;
use crate::view::View;
use crate::{partition_row, partitions};

/// The control plane's handle.
///
/// It can requeue a partition:
///
/// ```
/// async fn requeue(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
///
/// It cannot judge one:
///
/// ```compile_fail
/// async fn judge(
///     control: redrive_store::ControlStore, run: &redrive_core::run::Run,
///     judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     control.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// Nor can it be given an event of the data plane:
///
/// ```compile_fail
/// async fn claim(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::DataEvent)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ControlStore {
    pub(crate) inner: Arc<Inner>,
}

/// What became of one partition of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every outcome is the large one")]
pub enum Outcome {
    Changed {
        before: Partition,
        after: Partition,
    },
    Refused(Refused),
    /// Somebody else changed it first; this is how it is now.
    Overtaken(Box<Partition>),
}

/// Partitions about which it was decided what becomes of them, and what the audit will say.
#[derive(Debug, Default)]
pub struct Decided {
    outcomes: Vec<Outcome>,
    changes: Vec<partition::Change>,
    written: Vec<WrittenChange>,
}

impl ControlStore {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    pub fn new_operation_id(&self) -> OpId {
        self.inner.ids.operation(self.inner.now())
    }

    /// Makes partitions wanted that are not there yet; says of each whether it was new. With an operation, the new ones
    /// are audited. A key given twice counts once.
    pub async fn enqueue(&self, operation: Option<&Operation>, partitions: Vec<Partition>) -> Result<Vec<bool>> {
        let mut first = std::collections::HashMap::with_capacity(partitions.len());
        for (nth, partition) in partitions.iter().enumerate() {
            first.entry(partition.state.key.clone()).or_insert(nth);
        }
        let once: Vec<bool> =
            partitions.iter().enumerate().map(|(nth, partition)| first[&partition.state.key] == nth).collect();
        let unique: Vec<Partition> =
            partitions.into_iter().zip(&once).filter_map(|(partition, once)| once.then_some(partition)).collect();
        let written = unique
            .iter()
            .map(|partition| WrittenChange::new(None, &partition.snapshot()))
            .collect::<Result<Vec<_>>>()?;
        let work = Arc::new((operation.cloned(), unique, written));
        let new = self
            .inner
            .db
            .write("enqueue partitions", move |tx| {
                let work = Arc::clone(&work);
                Box::pin(async move {
                    let (operation, partitions, written) = &*work;
                    let new = partition_row::insert(tx, partitions).await?;
                    if let Some(operation) = operation {
                        let made: Vec<_> = partitions.iter().zip(written).zip(&new).filter(|(_, new)| **new).collect();
                        let made: Vec<_> =
                            made.iter().map(|((partition, change), _)| (&partition.state.key, *change)).collect();
                        audit::record(tx, operation, &made).await?;
                    }
                    tx.notify().await?;
                    Ok(new)
                })
            })
            .await?;
        self.inner.db.announce();
        let mut new = new.into_iter();
        Ok(once.into_iter().map(|once| once && new.next().unwrap_or(false)).collect())
    }

    /// Ends cooldowns before their time, with a row in the audit trail; gives those that were in force.
    pub async fn lift_cooldowns(
        &self,
        operation: &Operation,
        source: &Source,
        customer: Option<&CustomerId>,
    ) -> Result<Vec<Cooldown>> {
        let now = self.inner.now();
        let work = Arc::new((operation.clone(), source.clone(), customer.cloned()));
        let lifted = self
            .inner
            .db
            .write("lift cooldowns", move |tx| {
                let work = Arc::clone(&work);
                Box::pin(async move {
                    let (operation, source, customer) = &*work;
                    let lifted = cooldowns::lift(tx, source, customer.as_ref(), now).await?;
                    if !lifted.is_empty() {
                        audit::record_alone(tx, operation).await?;
                        tx.notify().await?;
                    }
                    Ok(lifted)
                })
            })
            .await?;
        self.inner.db.announce();
        Ok(lifted)
    }

    /// Puts an operation's events to partitions as they were read, in one transaction with its audit rows. Each is
    /// decided and written for itself: one that is refused or was overtaken stops no other.
    pub async fn commit(
        &self,
        operation: &Operation,
        items: Vec<(Partition, ControlEvent<'_>)>,
    ) -> Result<Vec<Outcome>> {
        self.write(operation, self.decide(items)?).await
    }

    /// Decides about partitions as they were read. Nothing is written, so that it can be done while others are.
    pub fn decide(&self, items: Vec<(Partition, ControlEvent<'_>)>) -> Result<Decided> {
        let now = self.inner.now();
        let mut decided = Decided::default();
        for (before, event) in items {
            match partition::apply(&before, Event::Control(event), now) {
                Ok(change) => {
                    decided.written.push(WrittenChange::new(Some(&before.snapshot()), &change.after.snapshot())?);
                    decided.changes.push(change);
                    decided.outcomes.push(Outcome::Overtaken(Box::new(before)));
                }
                Err(refused) => decided.outcomes.push(Outcome::Refused(refused)),
            }
        }
        Ok(decided)
    }

    /// Writes what was decided, where it still holds.
    pub async fn write(&self, operation: &Operation, decided: Decided) -> Result<Vec<Outcome>> {
        let Decided { outcomes, changes, written } = decided;
        if changes.is_empty() {
            return Ok(outcomes);
        }
        let work = Arc::new((operation.clone(), changes, written));
        let inside = Arc::clone(&work);
        let results = self
            .inner
            .db
            .write("commit changes", move |tx| {
                let work = Arc::clone(&inside);
                Box::pin(async move {
                    let (operation, changes, written) = &*work;
                    let took = partition_row::write_standing(tx, changes).await?;
                    let (mut made, mut now) = (Vec::with_capacity(changes.len()), Vec::new());
                    for ((change, written), took) in changes.iter().zip(written).zip(&took) {
                        let key = &change.after.state.key;
                        if *took {
                            made.push((key, written));
                            now.push(None);
                        } else {
                            now.push(partitions::get(tx, key).await?);
                        }
                    }
                    audit::record(tx, operation, &made).await?;
                    tx.notify().await?;
                    Ok(took.into_iter().zip(now).collect::<Vec<_>>())
                })
            })
            .await?;
        self.inner.db.announce();
        let changes = Arc::into_inner(work).map_or_else(Vec::new, |(_, changes, _)| changes);
        let mut results = changes.into_iter().zip(results);
        Ok(outcomes.into_iter().map(|outcome| settle(outcome, &mut results)).collect())
    }
}

/// Turns a guess into what was written.
fn settle(
    guess: Outcome,
    written: &mut impl Iterator<Item = (partition::Change, (bool, Option<Partition>))>,
) -> Outcome {
    match guess {
        Outcome::Overtaken(before) => match written.next() {
            Some((change, (true, _))) => Outcome::Changed { before: *before, after: change.after },
            Some((_, (false, now))) => Outcome::Overtaken(now.map_or(before, Box::new)),
            None => Outcome::Overtaken(before),
        },
        other @ (Outcome::Changed { .. } | Outcome::Refused(_)) => other,
    }
}
