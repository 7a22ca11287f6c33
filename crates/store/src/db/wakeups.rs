//! For which workloads there may be new work: what a transaction has to tell, and what those who wait for work are shown.

use redrive_core::run::Workload;

const KINDS: usize = Workload::ALL.len();

fn place(workload: Workload) -> usize {
    match workload {
        Workload::Extract => 0,
        Workload::Ingest => 1,
        Workload::Process => 2,
    }
}

/// Some workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Workloads([bool; KINDS]);

impl Workloads {
    pub(super) const EVERY: Self = Self([true; KINDS]);

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn add(&mut self, workload: Workload) {
        self.0[place(workload)] = true;
    }

    pub(super) fn each(self) -> impl Iterator<Item = Workload> {
        Workload::ALL.iter().copied().filter(move |workload| self.0[place(*workload)])
    }
}

/// What a transaction has to tell others once it has committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tells {
    /// There may be new work for these.
    pub(super) work: Workloads,
    /// A run that a worker may have was cancelled.
    pub(super) cancel: bool,
}

/// Counts up for each workload whenever there may be new work for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wakeups([u64; KINDS]);

impl Wakeups {
    pub fn of(self, workload: Workload) -> u64 {
        self.0[place(workload)]
    }

    pub(super) fn count(&mut self, workloads: Workloads) {
        for workload in workloads.each() {
            let count = &mut self.0[place(workload)];
            *count = count.wrapping_add(1);
        }
    }

    /// The workloads with new work since they stood so.
    pub(super) fn since(self, then: Self) -> Workloads {
        Workloads(std::array::from_fn(|nth| self.0[nth] != then.0[nth]))
    }
}
