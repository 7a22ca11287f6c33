//! Looking at operations: finding one in the audit trail, listing those that an operator asks for, and what became of their items.

use redrive_core::count;
use redrive_core::id::OpId;
use redrive_core::time::Timestamp;
use redrive_store::{ItemOutcome, PastOperation};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::prefix::{Found, IdPrefix};
use crate::shape::{BulkItemShape, BulkOperationShape, ChangeShape};

/// How many operations are read at a time.
const PAGE: u32 = 1000;
/// How many such pages are read for one answer.
const PAGES_AT_ONCE: u32 = 10;

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

    /// A page of the operations that a filter admits, newest first, before a number; with the number after which the next page
    /// begins. Where the filter admits few, a page may have fewer than there are.
    pub async fn operations_before(
        &self,
        filter: &OperationFilter,
        mut before: Option<i64>,
        limit: u32,
    ) -> Result<(Vec<PastOperation>, Option<i64>)> {
        let (wanted, mut found) = (usize::try_from(limit).unwrap_or(usize::MAX), Vec::new());
        for _ in 0..PAGES_AT_ONCE {
            let page = self.view().operations(before, PAGE).await?;
            let is_last = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for past in page {
                before = Some(past.seq);
                if filter.admits(&past) {
                    found.push(past);
                }
                if found.len() == wanted {
                    return Ok((found, before));
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, before))
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

impl Insight {
    /// An operation as it stands, whether it is done in steps or was done at once.
    pub async fn bulk_operation(&self, op_id: OpId) -> Result<BulkOperationShape> {
        if let Some(bulk) = self.view().bulk_operation(op_id).await? {
            return Ok(bulk.into());
        }
        let operation = self.view().operation(op_id).await?.ok_or(Error::NoOperation(op_id))?;
        Ok(BulkOperationShape::of_audited(operation, self.view().count_changes(op_id).await?))
    }

    /// Operations, newest first, before the one with this id.
    pub async fn bulk_operations(&self, before: Option<OpId>, limit: u32) -> Result<Vec<BulkOperationShape>> {
        let mut all = Vec::new();
        for op_id in self.view().operation_ids_before(before, limit).await? {
            all.push(self.bulk_operation(op_id).await?);
        }
        Ok(all)
    }

    /// The items of an operation after `after`, with what became of each; and the number of the last one that was looked at.
    pub async fn bulk_items(
        &self,
        op_id: OpId,
        after: i64,
        outcome: Option<ItemOutcome>,
        limit: u32,
    ) -> Result<(Vec<BulkItemShape>, Option<i64>)> {
        let Some(bulk) = self.view().bulk_operation(op_id).await? else {
            return self.audited_items(op_id, after, outcome, limit).await;
        };
        let items = self.view().bulk_items(bulk.list_id, after, outcome, limit).await?;
        let last = last_of_full(&items, limit).map(|item| item.seq);
        Ok((items.into_iter().map(BulkItemShape::from).collect(), last))
    }

    /// What an operation changed that was done at once: the audit trail keeps nothing else of it.
    async fn audited_items(
        &self,
        op_id: OpId,
        after: i64,
        outcome: Option<ItemOutcome>,
        limit: u32,
    ) -> Result<(Vec<BulkItemShape>, Option<i64>)> {
        self.view().operation(op_id).await?.ok_or(Error::NoOperation(op_id))?;
        match outcome {
            None | Some(ItemOutcome::Changed) => {}
            Some(ItemOutcome::Skipped | ItemOutcome::Failed) => return Ok((vec![], None)),
        }
        let page = self.view().changes(op_id, after, limit).await?;
        let last = last_of_full(&page, limit).map(|(seq, _)| *seq);
        let mut items = Vec::with_capacity(page.len());
        for (_, change) in page {
            let change = ChangeShape::try_from(change)?;
            let Value::Object(subject) = json!(change.subject) else { continue };
            items.push(BulkItemShape {
                subject,
                outcome: Some(ItemOutcome::Changed.as_str()),
                reason: None,
                from: change.before.map(|before| before.word().to_owned()),
                to: Some(change.after.word().to_owned()),
            });
        }
        Ok((items, last))
    }
}

/// The last of a page after which there may be another.
fn last_of_full<T>(page: &[T], limit: u32) -> Option<&T> {
    page.last().filter(|_| count::of(page.len()) >= u64::from(limit))
}
