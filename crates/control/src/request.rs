//! What a person, the API or the daemon asks the control plane for.

use std::sync::atomic::AtomicBool;

use redrive_core::filter::Filter;
use redrive_core::partition::Status;
use redrive_store::Page;
use serde_json::{Value, json};

/// How many partitions go into one transaction.
const CHUNK: u32 = 2000;

/// What is to be done to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Retry { clear_terminal: bool, allow_missing_raw: bool, stale: bool },
    Reprocess,
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
            Self::MarkTerminal => "mark-terminal",
            Self::ClearTerminal => "clear-terminal",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// What of a filter's range the verb can mean at all. One exact key is always looked at, and answered.
    pub(crate) fn page(self, filter: &Filter) -> Page {
        let mut page = Page { filter: filter.clone(), limit: CHUNK, ..Page::default() };
        if filter.as_key().is_some() || filter.status.is_some() {
            return page;
        }
        match self {
            Self::Retry { .. } => page.open = true,
            Self::Reprocess => page.filter.status = Some(Status::Success),
            Self::MarkTerminal => page.filter.status = Some(Status::Failed),
            Self::ClearTerminal => page.marked_terminal = true,
            Self::Pause => {}
            Self::Resume => page.paused = true,
        }
        page
    }
}

/// How something is asked for, whatever it is: what the audit keeps beside the deed itself.
#[derive(Debug, Clone)]
pub struct Order {
    /// The command line.
    pub command: String,
    pub dry_run: bool,
    pub yes: bool,
    pub force: bool,
    pub reason: Option<String>,
}

impl Order {
    pub(crate) fn flags(&self) -> Value {
        json!({"dry_run": self.dry_run, "yes": self.yes, "force": self.force})
    }

    pub(crate) fn flags_of(&self, verb: Verb) -> Value {
        let mut flags = self.flags();
        if let Verb::Retry { clear_terminal, allow_missing_raw, stale } = verb {
            flags["clear_terminal"] = clear_terminal.into();
            flags["allow_missing_raw"] = allow_missing_raw.into();
            flags["stale"] = stale.into();
        }
        flags
    }
}

/// A verb for everything that a filter means.
#[derive(Debug, Clone)]
pub struct Request {
    pub verb: Verb,
    pub filter: Filter,
    pub order: Order,
}

/// Who watches an operation, and may stop it between two chunks.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a callback has nothing to show")]
pub struct Watch<'a> {
    pub cancelled: &'a AtomicBool,
    /// Hears how many partitions have been dealt with.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// For a look ahead: enough is known after this many changes.
    pub stop_after: Option<u64>,
}
