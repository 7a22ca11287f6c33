//! Holds: what workers leave alone, set and lifted by a person, and taken back again.

use std::collections::BTreeSet;

use redrive_core::hold::{Hold, HoldKind, HoldScope};
use redrive_core::id::{HoldId, OpId};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::time::Timestamp;
use redrive_store::{HoldChange, Operation, Subject};
use serde_json::{Value, json};

use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::shape::{Report, SubjectRef, Words};

const HELD: &str = "held";
const LIFTED: &str = "lifted";

fn filters(scope: &HoldScope) -> Value {
    json!({"source": scope.source(), "customer_id": scope.customer_id(), "query_name": scope.query_name()})
}

/// One scope as it is, several as a list.
fn filters_of(scopes: &BTreeSet<HoldScope>) -> Value {
    match scopes.first() {
        Some(only) if scopes.len() == 1 => filters(only),
        Some(_) | None => json!({"scopes": scopes.iter().map(filters).collect::<Vec<_>>()}),
    }
}

impl ControlPlane {
    /// Withholds a scope, with what it has and what is still to come, until a moment or until it is lifted.
    pub async fn hold(&self, scope: HoldScope, until: Option<Timestamp>, audit: &Audit) -> Result<(OpId, Hold)> {
        let operation = self.operation(audit, &filters(&scope), &json!({"hold": true, "until": until}));
        let hold = self.store.set_hold(&operation, scope, until).await?;
        Ok((operation.op_id, hold))
    }

    /// Withholds several scopes so, by one operation.
    pub async fn hold_all(
        &self,
        scopes: &BTreeSet<HoldScope>,
        until: Option<Timestamp>,
        audit: &Audit,
    ) -> Result<(OpId, Vec<Hold>)> {
        let operation = self.operation(audit, &filters_of(scopes), &json!({"hold": true, "until": until}));
        let holds = self.store.set_holds(&operation, scopes, until).await?;
        Ok((operation.op_id, holds))
    }

    /// Lifts the holds in some scopes, or those of one kind; gives those that were in force.
    pub async fn lift(
        &self,
        scopes: &BTreeSet<HoldScope>,
        kind: Option<HoldKind>,
        audit: &Audit,
    ) -> Result<(OpId, Vec<Hold>)> {
        let operation = self.operation(audit, &filters_of(scopes), &json!({"lift": true, "kind": kind}));
        let lifted = self.store.lift_holds(&operation, scopes, kind).await?;
        Ok((operation.op_id, lifted))
    }

    /// Lifts one hold; says whether it was still in force.
    pub async fn lift_one(&self, hold: &Hold, audit: &Audit) -> Result<bool> {
        let operation = self.operation(audit, &filters(&hold.scope), &json!({"lift": true, "hold": hold.id}));
        Ok(self.store.lift_hold(&operation, hold).await?)
    }

    /// Puts back what an operation did to holds.
    pub(crate) async fn undo_holds(&self, op_id: OpId, operation: Operation, mut report: Report) -> Result<Report> {
        let changes = self.insight.hold_changes(op_id).await?;
        let took =
            self.store.revert_holds(&operation, changes.iter().map(|(_, change)| change.clone()).collect()).await?;
        report.op_id = took.contains(&true).then_some(operation.op_id);
        for ((id, change), took) in changes.iter().zip(took) {
            tell(&mut report, *id, change, took);
        }
        Ok(report)
    }
}

impl Insight {
    /// The holds in force.
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        Ok(self.view().holds().await?)
    }

    /// The scopes whose holds an operation changed.
    pub async fn held_scopes(&self, op_id: OpId) -> Result<Vec<HoldScope>> {
        let changes = self.hold_changes(op_id).await?.into_iter();
        Ok(changes
            .flat_map(|(_, change)| change.before.into_iter().chain(change.after))
            .map(|hold| hold.scope)
            .collect())
    }

    /// What an operation did to holds. One that changed holds changed nothing else.
    pub(crate) async fn hold_changes(&self, op_id: OpId) -> Result<Vec<(HoldId, HoldChange)>> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page = self.view().changes(op_id, after, 1_000).await?;
            let Some((last, _)) = page.last() else { return Ok(all) };
            after = *last;
            for (_, change) in page {
                match &change.subject {
                    Subject::Hold(id) => all.push((*id, change.hold_change()?)),
                    Subject::Partition(_) | Subject::Run(_) => return Ok(all),
                }
            }
        }
    }

    /// Says what putting back holds would do.
    pub(crate) async fn foresee_undo_holds(&self, op_id: OpId, mut report: Report) -> Result<Report> {
        let holds = self.holds().await?;
        for (id, change) in self.hold_changes(op_id).await? {
            let is_unchanged = match (&change.after, &change.before) {
                (Some(after), _) => holds.iter().any(|hold| hold.id == after.id),
                (None, Some(before)) => {
                    !holds.iter().any(|hold| hold.scope == before.scope && hold.kind() == before.kind())
                }
                (None, None) => false,
            };
            tell(&mut report, id, &change, is_unchanged);
        }
        Ok(report)
    }
}

fn tell(report: &mut Report, id: HoldId, change: &HoldChange, took: bool) {
    let word = |hold: &Option<Hold>| if hold.is_some() { HELD } else { LIFTED };
    report.matched += 1;
    if took {
        let words = Words { from: Some(word(&change.after)), to: word(&change.before) };
        report.change_hold(id, words);
    } else {
        report.skip(SubjectRef::Hold(id), Refused::Rule(Reason::ChangedSincePlan));
    }
}
