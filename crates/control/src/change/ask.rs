//! What a plan is asked for: which verb, for what, and by whom.

use redrive_core::filter::Filter;
use serde::Serialize;

use super::plan::PlannedVerb;
use super::runs::{RunRequest, RunSelection};
use super::select::Request;
use crate::audit::Audit;

/// What a plan is asked for.
#[derive(Debug, Clone)]
pub enum PlanAsk {
    Partitions(Request),
    Runs(RunRequest),
    Backfill { filter: Filter, force_pending: bool, audit: Audit },
}

/// What a request means by its filter, as the audit trail keeps it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Filters<'a> {
    Partitions(&'a Filter),
    Runs(&'a RunSelection),
}

impl PlanAsk {
    pub fn audit(&self) -> &Audit {
        match self {
            Self::Partitions(request) => &request.audit,
            Self::Runs(request) => &request.audit,
            Self::Backfill { audit, .. } => audit,
        }
    }

    pub(super) fn verb(&self) -> PlannedVerb {
        match self {
            Self::Partitions(request) => PlannedVerb::Partitions(request.verb),
            Self::Runs(request) => PlannedVerb::Runs(request.verb),
            Self::Backfill { force_pending, .. } => PlannedVerb::Backfill { force_pending: *force_pending },
        }
    }

    pub(super) fn filters(&self) -> Filters<'_> {
        match self {
            Self::Partitions(request) => Filters::Partitions(&request.filter),
            Self::Runs(request) => Filters::Runs(&request.runs),
            Self::Backfill { filter, .. } => Filters::Partitions(filter),
        }
    }
}
