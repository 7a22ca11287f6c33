//! What is asked of which partitions, and where they come from: a chunk at a time, in key order.

use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlEvent, ControlSnapshot, Partition, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::Grant;
use redrive_core::run::{self, Run, RunSnapshot};
use redrive_store::Page;
use serde_json::Value;

use super::runs::RunVerb;
use crate::audit::Audit;
use crate::error::Result;
use crate::insight::Insight;
use crate::shape::{SubjectRef, SubjectShape};

/// How many partitions go into one transaction.
pub(super) const CHUNK: u32 = 10_000;

/// The first chunk of many is short: nothing is written while it is read and decided.
const FIRST_CHUNK: u32 = 2_000;

/// What is to be done to the partitions of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Retry {
        clear_terminal: bool,
        allow_missing_raw: bool,
        stale: bool,
        grant: Option<Grant>,
    },
    Reprocess,
    /// Take requests to reprocess back.
    Withdraw,
    MarkTerminal,
    ClearTerminal,
    Pause,
    Resume,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::Reprocess => "reprocess",
            Self::Withdraw => "withdraw",
            Self::MarkTerminal => "mark-terminal",
            Self::ClearTerminal => "clear-terminal",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// The request's options, as the audit trail keeps them.
    pub(super) fn flags(self, audit: &Audit) -> Value {
        let mut flags = audit.flags();
        if let Self::Retry { clear_terminal, allow_missing_raw, stale, grant } = self {
            flags["clear_terminal"] = clear_terminal.into();
            flags["allow_missing_raw"] = allow_missing_raw.into();
            flags["stale"] = stale.into();
            if let Some(grant) = grant {
                flags["grant"] = grant.to_string().into();
            }
        }
        flags
    }

    /// The part of a filter's range that the verb can change. One exact key is always looked at, and answered.
    fn page(self, filter: &Filter) -> Page {
        let mut page = Page { filter: filter.clone(), limit: FIRST_CHUNK, ..Page::default() };
        if filter.as_key().is_some() || filter.status.is_some() || filter.group.is_some() {
            return page;
        }
        match self {
            Self::Retry { .. } => page.open = true,
            Self::Reprocess => page.filter.status = Some(Status::Success),
            Self::Withdraw => page.reprocess = true,
            Self::MarkTerminal => page.filter.status = Some(Status::Failed),
            Self::ClearTerminal => page.marked_terminal = true,
            Self::Pause => {}
            Self::Resume => page.paused = true,
        }
        page
    }
}

/// A verb for everything that a filter means.
#[derive(Debug, Clone)]
pub struct Request {
    pub verb: Verb,
    pub filter: Filter,
    pub audit: Audit,
    /// Changes no more than this many, the first in key order: a canary before the rest.
    pub limit: Option<u64>,
}

/// What is asked of one partition.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Verb(Verb),
    /// Wants a day, which may not be there yet.
    Backfill {
        force_pending: bool,
    },
    /// Puts a partition back to how an operation found it.
    Revert {
        to: ControlSnapshot,
        from_version: u64,
    },
}

impl Ask {
    /// Whether a partition may be changed so only if the raw sink holds something of it, and that is not known yet.
    pub(super) fn needs_raw(&self, basis: Basis) -> bool {
        let is_asked = matches!(self, Self::Verb(Verb::Retry { allow_missing_raw: false, .. }));
        is_asked && basis != Basis::Planned { raw_is_checked: true }
    }
}

/// What is asked of one run.
#[derive(Debug, Clone)]
pub(super) enum RunAsk {
    Verb(RunVerb),
    /// Puts a run back to how an operation found it.
    Revert {
        to: RunSnapshot,
        from_version: u64,
    },
}

/// What an operation is about: a partition or a run, and what is asked of it. From here to the report the path is one.
#[derive(Debug)]
pub(super) enum SubjectAsk {
    Partition(Partition, Ask),
    Run(Run, RunAsk),
}

/// What a candidate goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// It is there, as it was read. When another caller changes it first, it is looked at again.
    Read,
    /// It is there, and is changed only as the plan saw it.
    Planned { raw_is_checked: bool },
    /// It is not there: this is how it will be made.
    Absent,
}

/// A partition or a run that an operation is about.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) asked: SubjectAsk,
    pub(super) basis: Basis,
}

impl Candidate {
    pub(super) fn partition(partition: Partition, ask: Ask, basis: Basis) -> Self {
        Self { asked: SubjectAsk::Partition(partition, ask), basis }
    }

    pub(super) fn run(run: Run, ask: RunAsk, basis: Basis) -> Self {
        Self { asked: SubjectAsk::Run(run, ask), basis }
    }

    pub(super) fn subject(&self) -> SubjectRef<'_> {
        match &self.asked {
            SubjectAsk::Partition(partition, _) => SubjectRef::Partition(&partition.state.key),
            SubjectAsk::Run(run, _) => SubjectRef::Run(run.run_id),
        }
    }

    pub(super) fn needs_raw(&self) -> bool {
        match &self.asked {
            SubjectAsk::Partition(_, ask) => ask.needs_raw(self.basis),
            SubjectAsk::Run(..) => false,
        }
    }
}

/// What a selection gives at a time; nothing at its end.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) candidates: Vec<Candidate>,
    /// What was left out already, with the reason.
    pub(super) skipped: Vec<(SubjectShape, Refused)>,
}

impl Chunk {
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.skipped.is_empty()
    }

    /// Leaves one out, against a rule.
    pub(super) fn skip(&mut self, subject: SubjectShape, reason: Reason) {
        self.skipped.push((subject, Refused::Rule(reason)));
    }
}

/// Where an operation's partitions and runs come from.
pub(super) trait Selection {
    fn next(&mut self) -> impl Future<Output = Result<Chunk>> + Send;
}

/// Everything that a filter means.
pub(super) struct ByFilter<'a> {
    insight: &'a Insight,
    verb: Verb,
    page: Page,
    done: bool,
}

impl<'a> ByFilter<'a> {
    pub(super) fn new(insight: &'a Insight, verb: Verb, filter: &Filter) -> Self {
        Self { insight, verb, page: verb.page(filter), done: false }
    }
}

impl Selection for ByFilter<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        if self.done {
            return Ok(Chunk::default());
        }
        let found = self.insight.view().partitions(self.page.clone()).await?;
        self.done = found.len() < usize::try_from(self.page.limit).unwrap_or(usize::MAX);
        self.page.after = found.last().map(|last| last.state.key.clone());
        self.page.limit = CHUNK;
        let candidate = |partition| Candidate::partition(partition, Ask::Verb(self.verb), Basis::Read);
        Ok(Chunk { candidates: found.into_iter().map(candidate).collect(), skipped: vec![] })
    }
}

impl Insight {
    /// The event that an ask means for a partition, by the rules of its source.
    pub(super) fn event<'a>(&'a self, key: &PartitionKey, ask: &'a Ask, audit: &'a Audit) -> ControlEvent<'a> {
        let rules = self.sources().of(&key.source);
        let (policy, by, why) = (&rules.retry, audit.actor.as_str(), audit.reason.as_deref());
        let verb = match ask {
            Ask::Revert { to, from_version } => return ControlEvent::Revert { to, from_version: *from_version },
            Ask::Backfill { force_pending } => {
                return ControlEvent::Backfill { policy, force_pending: *force_pending };
            }
            Ask::Verb(verb) => *verb,
        };
        match verb {
            Verb::Retry { clear_terminal, stale, grant, .. } => {
                ControlEvent::Retry { policy, clear_terminal, stale, grant }
            }
            Verb::Reprocess => ControlEvent::Reprocess,
            Verb::Withdraw => ControlEvent::Withdraw,
            Verb::MarkTerminal => ControlEvent::MarkTerminal { by, why, threshold: rules.terminal_threshold() },
            Verb::ClearTerminal => ControlEvent::ClearTerminal,
            Verb::Pause => ControlEvent::Pause { by, why },
            Verb::Resume => ControlEvent::Resume,
        }
    }
}

impl RunAsk {
    pub(super) fn event(&self, audit: &Audit) -> run::ControlEvent {
        match self {
            Self::Verb(RunVerb::Retry) => run::ControlEvent::Retry,
            Self::Verb(RunVerb::Cancel) => run::ControlEvent::Cancel { by: audit.actor.clone() },
            Self::Revert { to, from_version } => {
                run::ControlEvent::Revert { to: to.clone(), from_version: *from_version }
            }
        }
    }
}

/// Whether two partitions differ in their day alone.
pub(crate) fn same_query(a: &PartitionKey, b: &PartitionKey) -> bool {
    (&a.source, &a.customer_id, &a.query_name) == (&b.source, &b.customer_id, &b.query_name)
}
