//! What people are told: one notice for each thing that they may have to act on, in words that need no other page. Customers'
//! values are not in it: notices leave the house.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::episode::Turn;
use crate::failure::ErrorClass;
use crate::fingerprint::GroupId;
use crate::hold::Hold;
use crate::id::OpId;
use crate::key::Source;
use crate::time::Timestamp;

crate::word::words! {
    /// What a notice is about, as a receiver chooses by it.
    NoticeKind, "event" {
        /// A failure group has its first failures.
        GroupOpened = "group_opened",
        /// It has ten times as many as when it opened.
        GroupGrown = "group_grown",
        /// Some of it have no attempts left.
        GroupExhausted = "group_exhausted",
        /// Nothing of it is failed any more.
        GroupResolved = "group_resolved",
        /// A source or a customer is held, because all of its attempts fail alike.
        BreakerTripped = "breaker_tripped",
        /// A durable operation is done, was cancelled or has failed.
        OperationEnded = "operation_ended",
        /// A person tries a receiver out.
        Test = "test",
    }
}

impl From<Turn> for NoticeKind {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Opened => Self::GroupOpened,
            Turn::Grown => Self::GroupGrown,
            Turn::Exhausted => Self::GroupExhausted,
            Turn::Resolved => Self::GroupResolved,
        }
    }
}

/// A notice, as receivers get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub event: NoticeKind,
    /// What it is about: notices of one subject reach a receiver in their order.
    pub subject: String,
    /// What happened, in one sentence.
    pub what: String,
    pub count: u64,
    /// Whether the count ended at a bound.
    pub at_least: bool,
    pub since: Timestamp,
    /// What happens next by itself.
    pub next: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<NoticeAction>,
    pub sources: BTreeSet<String>,
    pub categories: BTreeSet<String>,
    /// Where the server's pages show it.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_class: Option<ErrorClass>,
    /// What the failures have in common.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<String>,
}

/// What a person can do about a notice. Each interface has its own words for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeAction {
    /// Retry the group's partitions.
    RetryPartitions(GroupId),
    /// Retry the group's runs: it has no partitions.
    RetryRuns(GroupId),
    /// Lift the holds of a source and its customers.
    LiftHolds(Source),
    /// Undo the operation.
    Undo(OpId),
}

/// The words of an interface for what a person can do.
pub type NoticeWords = fn(&NoticeAction) -> String;

/// What a failure group has that is failed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFacts {
    pub group: GroupId,
    pub class: ErrorClass,
    pub template: String,
    pub failed: u64,
    /// Whether there are more than were counted.
    pub at_least: bool,
    pub exhausted: u64,
    /// Marked terminal or paused by a person.
    pub withheld: u64,
    pub sources: BTreeSet<String>,
    pub categories: BTreeSet<String>,
}

impl Notice {
    /// Tells of a turn in a group's episode, which began then.
    pub fn of_group(turn: Turn, facts: &GroupFacts, since: Timestamp) -> Self {
        let GroupFacts { group, class, template, failed, at_least, .. } = facts;
        let count = counted(*failed, *at_least);
        let what = match turn {
            Turn::Opened => format!("{count} failed alike: {template}"),
            Turn::Grown => format!("failures alike have grown tenfold, to {count}: {template}"),
            Turn::Exhausted => format!("{} of {count} have no attempts left: {template}", facts.exhausted),
            Turn::Resolved => format!("nothing is failed any more with: {template}"),
        };
        Self {
            event: turn.into(),
            subject: format!("group:{group}"),
            what,
            count: *failed,
            at_least: *at_least,
            since,
            next: facts.next(),
            action: facts.action(),
            sources: facts.sources.clone(),
            categories: facts.categories.clone(),
            path: format!("/groups?group={group}"),
            error_class: Some(*class),
            template: Some(template.clone()),
        }
    }

    /// Tells that a breaker holds a source, or a customer of it.
    pub fn of_breaker(hold: &Hold) -> Self {
        let source = hold.scope.source();
        let scope = match hold.scope.customer_id() {
            Some(_) => format!("one customer of source {source}"),
            None => format!("source {source}"),
        };
        let next = match hold.probing() {
            Some(probing) => {
                format!("one attempt goes ahead at {} and lifts the hold if it succeeds", probing.at)
            }
            None => "the hold stays until a person lifts it".to_owned(),
        };
        Self {
            event: NoticeKind::BreakerTripped,
            subject: format!("hold:{}", hold.id),
            what: format!("{scope} is held: its attempts fail one after another"),
            count: 1,
            at_least: false,
            since: hold.since,
            next,
            action: Some(NoticeAction::LiftHolds(source.clone())),
            sources: BTreeSet::from([source.to_string()]),
            categories: BTreeSet::new(),
            path: "/holds".to_owned(),
            error_class: None,
            template: None,
        }
    }

    /// Tells how an operation ended, such as `done` or `failed`, with how many it changed.
    pub fn of_operation(op_id: OpId, command: &str, ended: &str, changed: u64, since: Timestamp) -> Self {
        Self {
            event: NoticeKind::OperationEnded,
            subject: format!("operation:{op_id}"),
            what: format!("the operation {command} is {ended}; it changed {changed}"),
            count: changed,
            at_least: false,
            since,
            next: "nothing by itself".to_owned(),
            action: Some(NoticeAction::Undo(op_id)),
            sources: BTreeSet::new(),
            categories: BTreeSet::new(),
            path: format!("/operations/{op_id}"),
            error_class: None,
            template: None,
        }
    }

    /// A notice that means nothing, to try a receiver out.
    pub fn test(by: &str, now: Timestamp) -> Self {
        Self {
            event: NoticeKind::Test,
            subject: "test".to_owned(),
            what: format!("{by} tries out this receiver"),
            count: 1,
            at_least: false,
            since: now,
            next: "nothing: this is a test".to_owned(),
            action: None,
            sources: BTreeSet::new(),
            categories: BTreeSet::new(),
            path: "/".to_owned(),
            error_class: None,
            template: None,
        }
    }

    /// What happens next, followed by what a person can do in an interface's own words.
    pub fn next_in(&self, words: NoticeWords) -> String {
        match &self.action {
            Some(action) => format!("{}; {}", self.next, words(action)),
            None => self.next.clone(),
        }
    }

    /// Whether a receiver wants it that asks for these events and sources; none asks for all.
    pub fn is_for(&self, events: &[NoticeKind], sources: &[String]) -> bool {
        let is_event = events.is_empty() || events.contains(&self.event);
        is_event && (sources.is_empty() || sources.iter().any(|source| self.sources.contains(source)))
    }
}

impl GroupFacts {
    /// How many are tried again by themselves.
    fn left(&self) -> u64 {
        match self.class {
            ErrorClass::Final => 0,
            ErrorClass::Retryable | ErrorClass::RateLimited => {
                self.failed.saturating_sub(self.exhausted + self.withheld)
            }
        }
    }

    /// What becomes of the group's failures.
    fn next(&self) -> String {
        if self.failed == 0 {
            return "nothing has to be done".to_owned();
        }
        match (self.class, self.left()) {
            (ErrorClass::Final, _) => "the error is final: none is tried again until a person asks".to_owned(),
            (ErrorClass::Retryable | ErrorClass::RateLimited, 0) => {
                "none is tried again until a person asks".to_owned()
            }
            (ErrorClass::Retryable | ErrorClass::RateLimited, left) if left == self.failed => {
                "all are tried again by themselves".to_owned()
            }
            (ErrorClass::Retryable | ErrorClass::RateLimited, left) => {
                format!("{left} are tried again by themselves, the others only when a person asks")
            }
        }
    }

    /// What a person can do about those that are not tried again by themselves.
    fn action(&self) -> Option<NoticeAction> {
        let retry = if self.sources.is_empty() { NoticeAction::RetryRuns } else { NoticeAction::RetryPartitions };
        (self.left() < self.failed).then(|| retry(self.group))
    }
}

fn counted(count: u64, at_least: bool) -> String {
    match at_least {
        true => format!("more than {}", count.saturating_sub(1)),
        false => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(class: ErrorClass, failed: u64, exhausted: u64) -> GroupFacts {
        GroupFacts {
            group: GroupId::from_number(0xabc).unwrap_or_else(|| unreachable!("it is a group")),
            class,
            template: "HTTP 503 from <host>".to_owned(),
            failed,
            at_least: failed > 10_000,
            exhausted,
            withheld: 0,
            sources: BTreeSet::from(["ads".to_owned()]),
            categories: BTreeSet::new(),
        }
    }

    #[test]
    fn a_notice_says_how_many_and_what_happens_next() {
        let since = Timestamp::from_micros(0);
        let notice = Notice::of_group(Turn::Opened, &facts(ErrorClass::Retryable, 10_001, 0), since);
        assert_eq!(notice.what, "more than 10000 failed alike: HTTP 503 from <host>");
        assert!(notice.next.starts_with("all are tried again") && notice.action.is_none(), "{}", notice.next);
        let notice = Notice::of_group(Turn::Exhausted, &facts(ErrorClass::Retryable, 5, 2), since);
        assert!(notice.what.starts_with("2 of 5 have no attempts left"), "{}", notice.what);
        assert!(notice.next.starts_with("3 are tried again"), "{}", notice.next);
        let notice = Notice::of_group(Turn::Opened, &facts(ErrorClass::Final, 5, 0), since);
        assert!(notice.next.starts_with("the error is final"), "{}", notice.next);
        assert!(
            notice
                .next_in(|action| format!("{action:?} helps"))
                .ends_with("asks; RetryPartitions(GroupId(2748)) helps")
        );
        let text = serde_json::to_string(&notice).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Notice>(&text).ok(), Some(notice));
    }

    #[test]
    fn a_receiver_chooses_by_event_and_source() {
        let notice = Notice::of_group(Turn::Grown, &facts(ErrorClass::Final, 1, 0), Timestamp::from_micros(0));
        let (ads, crm) = (["ads".to_owned()], ["crm".to_owned()]);
        assert!(notice.is_for(&[], &[]) && notice.is_for(&[NoticeKind::GroupGrown], &ads));
        assert!(!notice.is_for(&[NoticeKind::GroupOpened], &[]) && !notice.is_for(&[], &crm));
    }
}
