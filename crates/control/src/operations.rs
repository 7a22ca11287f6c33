//! Looking into the audit trail: finding an operation, and listing those that an operator asks for.

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;
use redrive_store::PastOperation;

use crate::error::Result;
use crate::insight::Insight;
use crate::prefix::{Found, IdPrefix};

/// How many operations are read at a time.
const PAGE: u32 = 1000;

/// Which operations; every condition that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFilter {
    pub actor: Option<String>,
    pub since: Option<Timestamp>,
    /// A word of its command, such as `retry`.
    pub verb: Option<String>,
}

impl OperationFilter {
    fn admits(&self, past: &PastOperation) -> bool {
        let operation = &past.operation;
        self.actor.as_ref().is_none_or(|actor| *actor == operation.actor)
            && self.since.is_none_or(|since| operation.at >= since)
            && self.verb.as_ref().is_none_or(|verb| operation.command.split(' ').any(|word| word == verb))
    }
}

/// Operations that a filter admits, newest first.
#[derive(Debug)]
pub struct Operations<'a> {
    insight: &'a Insight,
    filter: OperationFilter,
    before: Option<i64>,
}

impl Operations<'_> {
    /// The next of them; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<PastOperation>>> {
        let page = self.insight.view().operations(self.before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.before = Some(last.seq);
        Ok(Some(page.into_iter().filter(|past| self.filter.admits(past)).collect()))
    }
}

impl Insight {
    pub fn operations(&self, filter: OperationFilter) -> Operations<'_> {
        Operations { insight: self, filter, before: None }
    }

    /// Finds an operation by its id, or by an unambiguous beginning of it.
    pub async fn find_operation(&self, prefix: IdPrefix<OpId>) -> Result<Found<OpId, OpId>> {
        Ok(Found::of(&self.view().operation_ids_between(prefix.first, prefix.last, 2).await?))
    }

    /// The newest operation of an actor.
    pub async fn last_operation(&self, actor: &str) -> Result<Option<OpId>> {
        let filter = OperationFilter { actor: Some(actor.to_owned()), ..OperationFilter::default() };
        let mut operations = self.operations(filter);
        while let Some(page) = operations.next().await? {
            if let Some(newest) = page.first() {
                return Ok(Some(newest.operation.op_id));
            }
        }
        Ok(None)
    }
}
