//! Holds: what workers leave alone, why, and until when.
//!
//! A hold is set by a source's "slow down", by a person, or by the breaker. It never touches a partition: what a scope has
//! queued, and what the calendar adds to it, waits until every hold that covers it has ended.

use std::time::Duration;

use crate::fingerprint::GroupId;
use crate::id::{HoldId, RunId};
use crate::key::{CustomerId, PartitionKey, QueryName, Source};
use crate::time::Timestamp;
use crate::word::words;

/// How long a source that says "slow down", but not for how long, is left alone where its configuration does not say it.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_secs(30);

words!(
    /// Who set a hold, from the least to the most weighty.
    HoldKind, "hold" {
        /// The source said "slow down".
        Cooldown = "cooldown",
        /// One failure after another, or a source that cannot be used.
        Breaker = "breaker",
        /// A person.
        Operator = "operator",
    }
);

/// What a hold withholds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldScope {
    Source(Source),
    Customer(Source, CustomerId),
    Query(Source, CustomerId, QueryName),
}

impl HoldScope {
    /// The scope of a source, with a customer where one is named.
    pub fn new(source: Source, customer_id: Option<CustomerId>) -> Self {
        match customer_id {
            None => Self::Source(source),
            Some(customer_id) => Self::Customer(source, customer_id),
        }
    }

    pub fn source(&self) -> &Source {
        match self {
            Self::Source(source) | Self::Customer(source, _) | Self::Query(source, ..) => source,
        }
    }

    pub fn customer_id(&self) -> Option<&CustomerId> {
        match self {
            Self::Source(_) => None,
            Self::Customer(_, customer) | Self::Query(_, customer, _) => Some(customer),
        }
    }

    pub fn query_name(&self) -> Option<&QueryName> {
        match self {
            Self::Source(_) | Self::Customer(..) => None,
            Self::Query(_, _, query) => Some(query),
        }
    }

    /// Whether every partition of this source is in it.
    pub fn covers_source(&self, source: &Source) -> bool {
        matches!(self, Self::Source(held) if held == source)
    }

    /// Whether every partition of this customer is in it.
    pub fn covers_customer(&self, source: &Source, customer: &CustomerId) -> bool {
        match self {
            Self::Source(held) => held == source,
            Self::Customer(held, held_customer) => (held, held_customer) == (source, customer),
            Self::Query(..) => false,
        }
    }

    /// Whether every partition of this query is in it.
    pub fn covers_query(&self, source: &Source, customer: &CustomerId, query: &QueryName) -> bool {
        match self {
            Self::Source(_) | Self::Customer(..) => self.covers_customer(source, customer),
            Self::Query(held, held_customer, held_query) => {
                (held, held_customer, held_query) == (source, customer, query)
            }
        }
    }

    pub fn covers(&self, key: &PartitionKey) -> bool {
        self.covers_query(&key.source, &key.customer_id, &key.query_name)
    }

    /// Whether everything in the other scope is in this one.
    pub fn contains(&self, other: &Self) -> bool {
        match other {
            Self::Source(source) => self.covers_source(source),
            Self::Customer(source, customer) => self.covers_customer(source, customer),
            Self::Query(source, customer, query) => self.covers_query(source, customer, query),
        }
    }
}

impl std::fmt::Display for HoldScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Source(source) => write!(f, "{source}"),
            Self::Customer(source, customer) => write!(f, "{source}/{customer}"),
            Self::Query(source, customer, query) => write!(f, "{source}/{customer}/{query}"),
        }
    }
}

/// Who set a hold, with what only a breaker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Cooldown,
    Operator,
    Breaker(Probing),
}

/// How a breaker finds out whether it may be lifted: one attempt at a time goes ahead, the canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    pub trip: Trip,
    /// When the next canary may start.
    pub at: Timestamp,
    /// How long the wait for it is.
    pub every: Duration,
    /// The attempt that was last sent ahead, until it has a verdict.
    pub canary: Option<RunId>,
}

/// What tripped a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// Verdict after verdict was final.
    Finals,
    /// Verdict after verdict had one cause.
    Group(GroupId),
    /// What is configured or installed here does not let the source be asked.
    Unusable,
}

/// What the reason of a hold on a source that cannot be used begins with.
pub const SOURCE_UNUSABLE: &str = "source_unusable";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    pub scope: HoldScope,
    pub cause: Cause,
    pub since: Timestamp,
    /// None means until it is lifted.
    pub until: Option<Timestamp>,
    pub by: String,
    pub why: Option<String>,
}

impl Hold {
    pub fn kind(&self) -> HoldKind {
        match self.cause {
            Cause::Cooldown => HoldKind::Cooldown,
            Cause::Operator => HoldKind::Operator,
            Cause::Breaker(_) => HoldKind::Breaker,
        }
    }

    pub fn probing(&self) -> Option<&Probing> {
        match &self.cause {
            Cause::Breaker(probing) => Some(probing),
            Cause::Cooldown | Cause::Operator => None,
        }
    }

    /// Whether this attempt was the last to go ahead for it.
    pub fn sent(&self, run_id: RunId) -> bool {
        self.probing().is_some_and(|probing| probing.canary == Some(run_id))
    }

    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    /// How many attempts of its scope may start now: none, or one canary of a breaker. `is_running` says whether the last
    /// canary still is; one that ended without a verdict is followed by another.
    pub fn lets_through(&self, now: Timestamp, is_running: impl Fn(RunId) -> bool) -> u32 {
        match &self.cause {
            _ if !self.is_in_force(now) => u32::MAX,
            Cause::Cooldown | Cause::Operator => 0,
            Cause::Breaker(probing) if probing.at > now || probing.canary.is_some_and(is_running) => 0,
            Cause::Breaker(_) => 1,
        }
    }
}

/// Names the hold that a person is shown for a partition: the one that ends last, because the others will be over by
/// then. Of those that end together it is the one of the weightiest kind, and of those the one with the widest scope.
pub fn reason<'a>(holds: &'a [Hold], key: &PartitionKey, now: Timestamp) -> Option<&'a Hold> {
    let covering = holds.iter().filter(|hold| hold.is_in_force(now) && hold.scope.covers(key));
    covering.max_by_key(|hold| {
        let width = match hold.scope {
            HoldScope::Source(_) => 2,
            HoldScope::Customer(..) => 1,
            HoldScope::Query(..) => 0,
        };
        (hold.until.unwrap_or(Timestamp::MAX), hold.kind(), width)
    })
}

#[cfg(test)]
mod tests;
