//! What a person decides about holds: set, lifted, put back. Each change has its row in the audit trail.

use std::collections::BTreeSet;

use redrive_core::hold::{Cause, Hold, HoldKind, HoldScope};
use redrive_core::time::Timestamp;

use super::breaker;
use super::row::{of_source_locked, put, remove};
use crate::audit::{self, NewChange, Operation, PlacedSubject, WrittenChange};
use crate::db::Tx;
use crate::error::Result;
use crate::handles::{ControlStore, transact};

/// A hold before and after an operation; none where it was not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldChange {
    pub before: Option<Hold>,
    pub after: Option<Hold>,
}

impl HoldChange {
    fn either(&self) -> Option<&Hold> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

impl ControlStore {
    /// Holds a scope in a person's name, in place of such a hold that it may have already.
    pub async fn set_hold(&self, operation: &Operation, scope: HoldScope, until: Option<Timestamp>) -> Result<Hold> {
        let (operation, hold) = (operation.clone(), self.operators(operation, scope, until));
        transact!(self.inner, "set hold", |tx, operation, hold| {
            set(tx, &operation, std::slice::from_ref(&hold)).await?;
            Ok(Hold::clone(&hold))
        })
    }

    /// Holds several scopes so, all of them or none.
    pub async fn set_holds(
        &self,
        operation: &Operation,
        scopes: &BTreeSet<HoldScope>,
        until: Option<Timestamp>,
    ) -> Result<Vec<Hold>> {
        let holds: Vec<Hold> = scopes.iter().map(|scope| self.operators(operation, scope.clone(), until)).collect();
        let operation = operation.clone();
        transact!(self.inner, "set holds", |tx, operation, holds| {
            set(tx, &operation, &holds).await?;
            Ok(Vec::clone(&holds))
        })
    }

    /// The hold of a person.
    fn operators(&self, operation: &Operation, scope: HoldScope, until: Option<Timestamp>) -> Hold {
        Hold {
            id: self.inner.ids.hold(operation.at),
            scope,
            cause: Cause::Operator,
            since: operation.at,
            until,
            by: operation.actor.clone(),
            why: operation.reason.clone(),
        }
    }

    /// Lifts all holds in some scopes, or those of one kind; gives those that were in force.
    pub async fn lift_holds(
        &self,
        operation: &Operation,
        scopes: &BTreeSet<HoldScope>,
        kind: Option<HoldKind>,
    ) -> Result<Vec<Hold>> {
        let now = self.inner.now();
        let (operation, scopes) = (operation.clone(), scopes.clone());
        transact!(self.inner, "lift holds", |tx, operation, scopes| lift(tx, &operation, &scopes, kind, now).await)
    }

    /// Lifts one hold; says whether it was still in force.
    pub async fn lift_hold(&self, operation: &Operation, hold: &Hold) -> Result<bool> {
        let now = self.inner.now();
        let (operation, hold) = (operation.clone(), hold.clone());
        transact!(self.inner, "lift hold", |tx, operation, hold| {
            breaker::exclusive(tx).await?;
            let mut found = of_source_locked(tx, &hold.scope).await?;
            found.retain(|known| known.id == hold.id && known.is_in_force(now));
            Ok(!end(tx, &operation, found).await?.is_empty())
        })
    }

    /// Puts holds back to how an operation found them; says of each whether nothing had happened to it since.
    pub async fn revert_holds(&self, operation: &Operation, changes: Vec<HoldChange>) -> Result<Vec<bool>> {
        let operation = operation.clone();
        transact!(self.inner, "revert holds", |tx, operation, changes| revert(tx, &operation, &changes).await)
    }
}

/// The holds come in the order of their scopes: no two transactions wait for each other's.
async fn set(tx: &mut Tx<'_>, operation: &Operation, holds: &[Hold]) -> Result<()> {
    let mut changes = Vec::with_capacity(holds.len());
    for hold in holds {
        let known = of_source_locked(tx, &hold.scope).await?;
        let before = known.into_iter().find(|known| known.scope == hold.scope && known.kind() == hold.kind());
        put(tx, hold).await?;
        changes.push(HoldChange { before, after: Some(hold.clone()) });
    }
    record(tx, operation, &changes).await
}

async fn lift(
    tx: &mut Tx<'_>,
    operation: &Operation,
    scopes: &BTreeSet<HoldScope>,
    kind: Option<HoldKind>,
    now: Timestamp,
) -> Result<Vec<Hold>> {
    breaker::exclusive(tx).await?;
    let mut lifted: Vec<Hold> = Vec::new();
    for scope in scopes {
        let mut found = of_source_locked(tx, scope).await?;
        found.retain(|hold| {
            scope.contains(&hold.scope)
                && hold.is_in_force(now)
                && kind.is_none_or(|kind| hold.kind() == kind)
                // A scope may lie in another one that was named.
                && !lifted.iter().any(|known| known.id == hold.id)
        });
        lifted.extend(found);
    }
    end(tx, operation, lifted).await
}

/// Takes holds away, with their rows in the audit trail.
async fn end(tx: &mut Tx<'_>, operation: &Operation, lifted: Vec<Hold>) -> Result<Vec<Hold>> {
    for hold in &lifted {
        remove(tx, hold.id).await?;
        if hold.kind() == HoldKind::Breaker {
            breaker::forget(tx, hold.scope.source()).await?;
        }
    }
    let changes: Vec<HoldChange> =
        lifted.iter().map(|hold| HoldChange { before: Some(hold.clone()), after: None }).collect();
    record(tx, operation, &changes).await?;
    if !lifted.is_empty() {
        tx.wake();
    }
    Ok(lifted)
}

async fn revert(tx: &mut Tx<'_>, operation: &Operation, changes: &[HoldChange]) -> Result<Vec<bool>> {
    breaker::exclusive(tx).await?;
    let (mut took, mut reverted) = (Vec::with_capacity(changes.len()), Vec::new());
    for change in changes {
        let Some(either) = change.either() else {
            took.push(false);
            continue;
        };
        let known = of_source_locked(tx, &either.scope).await?;
        let now = known.into_iter().find(|known| known.scope == either.scope && known.kind() == either.kind());
        if now.as_ref().map(|hold| hold.id) != change.after.as_ref().map(|hold| hold.id) {
            took.push(false);
            continue;
        }
        match (&change.before, &now) {
            (Some(before), _) => put(tx, before).await?,
            (None, Some(now)) => remove(tx, now.id).await?,
            (None, None) => {}
        }
        took.push(true);
        reverted.push(HoldChange { before: now, after: change.before.clone() });
    }
    record(tx, operation, &reverted).await?;
    tx.wake();
    Ok(took)
}

/// Adds an operation's changes of holds to the audit trail.
pub(super) async fn record(tx: &mut Tx<'_>, operation: &Operation, changes: &[HoldChange]) -> Result<()> {
    let subjects = changes.iter().filter_map(|change| Some((change.either()?.id, change)));
    let mut written = Vec::with_capacity(changes.len());
    for (id, change) in subjects {
        written.push((id, WrittenChange::of_hold(change.before.as_ref(), change.after.as_ref())?));
    }
    let new = written.iter().map(|(id, written)| NewChange { subject: PlacedSubject::Hold(*id), written });
    audit::record(tx, operation, &new.collect::<Vec<_>>()).await
}
