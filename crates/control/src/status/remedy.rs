//! What a person does about each need. Each interface has its own words for it.

use redrive_core::fingerprint::GroupId;
use redrive_core::process::Kind;
use redrive_core::run::Workload;

use super::attention::Need;

/// What meets a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Start a worker, of one workload or of all.
    StartWorker(Option<Workload>),
    StartDaemon,
    StartServer,
    /// Have the installation looked through for what is wrong.
    Diagnose,
    LiftHold {
        source: String,
        customer: Option<String>,
    },
    /// See which runs of a category a cancel would end.
    ForeseeCancel {
        category: String,
    },
    /// See which runs are queued, of one category or of all.
    ListQueued {
        category: Option<String>,
    },
    ListRuns(Workload),
    /// See by failure group what a workload's runs died of.
    ListRunGroups(Workload),
    /// Have these processes read their configuration again.
    Reload {
        pids: Vec<u32>,
    },
    RetryGroup(GroupId),
    /// Retry a group's partitions past what their policy allows.
    RetryGroupClearingTerminal(GroupId),
}

/// The words of an interface for what meets a need.
pub type RemedyWords = fn(&Remedy) -> String;

impl Need {
    /// What meets it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NoWorker { has_workers: true, .. } => Remedy::Diagnose,
            Self::NoWorker { has_workers: false, .. } => Remedy::StartWorker(None),
            Self::Breaker { source, customer, .. } => {
                Remedy::LiftHold { source: source.clone(), customer: customer.clone() }
            }
            Self::NoRunWorker { workload } => Remedy::StartWorker(Some(*workload)),
            Self::UnknownCategory { category } => Remedy::ForeseeCancel { category: category.clone() },
            Self::NoOutsideWorker { category, .. } => Remedy::ListQueued { category: Some(category.clone()) },
            Self::NoDaemon => Remedy::StartDaemon,
            Self::Silent { kind, .. } => match kind {
                Kind::Worker => Remedy::StartWorker(None),
                Kind::Daemon => Remedy::StartDaemon,
                Kind::Server => Remedy::StartServer,
                Kind::Outside => Remedy::Diagnose,
            },
            Self::NotClaiming { .. } => Remedy::ListQueued { category: None },
            Self::Drift { pids, .. } => Remedy::Reload { pids: pids.clone() },
            Self::Final { group, .. } => Remedy::RetryGroup(*group),
            Self::Exhausted { group, .. } => Remedy::RetryGroupClearingTerminal(*group),
            Self::Incidents { .. } => Remedy::ListRuns(Workload::Process),
            Self::DeadRuns { workload } => Remedy::ListRunGroups(*workload),
        }
    }
}
