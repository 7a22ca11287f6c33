//! What is said of many partitions, runs or holds, in little memory.

use redrive_core::count;
use redrive_core::id::{HoldId, RunId};
use redrive_core::key::{LogicalDate, PartitionKey};

use super::operation::SubjectShape;
use crate::change::same_query;

/// A partition, a run or a hold, by what it is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubjectRef<'a> {
    Partition(&'a PartitionKey),
    Run(RunId),
    Hold(HoldId),
}

impl<'a> From<&'a SubjectShape> for SubjectRef<'a> {
    fn from(shape: &'a SubjectShape) -> Self {
        match shape {
            SubjectShape::Partition(key) => Self::Partition(key),
            SubjectShape::Run { run_id } => Self::Run(*run_id),
            SubjectShape::Hold { hold_id } => Self::Hold(*hold_id),
        }
    }
}

impl From<SubjectRef<'_>> for SubjectShape {
    fn from(subject: SubjectRef<'_>) -> Self {
        match subject {
            SubjectRef::Partition(key) => Self::Partition(key.clone()),
            SubjectRef::Run(run_id) => Self::Run { run_id },
            SubjectRef::Hold(hold_id) => Self::Hold { hold_id },
        }
    }
}

/// Partitions and runs, and what is said of each. Days of one query that follow one another, and of which the same is said, are
/// kept as days alone: a million of them take four megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed<T> {
    groups: Vec<Group<T>>,
    len: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group<T> {
    members: Members,
    remark: T,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    /// A partition, and the days of its query after it.
    Days(PartitionKey, Vec<LogicalDate>),
    Runs(Vec<RunId>),
    /// One operation changes few of them.
    Hold(HoldId),
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self { groups: vec![], len: 0 }
    }
}

impl<T: Copy + PartialEq> Keyed<T> {
    pub(crate) fn push(&mut self, subject: SubjectRef<'_>, remark: T) {
        self.len += 1;
        let last = self.groups.last_mut().filter(|group| group.remark == remark).map(|group| &mut group.members);
        match (last, subject) {
            (Some(Members::Days(first, more)), SubjectRef::Partition(key)) if same_query(first, key) => {
                more.push(key.logical_date);
            }
            (Some(Members::Runs(runs)), SubjectRef::Run(id)) => runs.push(id),
            (Some(Members::Days(..) | Members::Runs(_) | Members::Hold(_)) | None, SubjectRef::Partition(key)) => {
                self.groups.push(Group { members: Members::Days(key.clone(), vec![]), remark });
            }
            (Some(Members::Days(..) | Members::Hold(_)) | None, SubjectRef::Run(id)) => {
                self.groups.push(Group { members: Members::Runs(vec![id]), remark });
            }
            (_, SubjectRef::Hold(id)) => self.groups.push(Group { members: Members::Hold(id), remark }),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Each partition or run with what is said of it, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (SubjectShape, T)> + '_ {
        self.groups.iter().flat_map(|group| group.members.iter().map(|subject| (subject, group.remark)))
    }

    /// Each remark, and about how many it is.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (T, u64)> + '_ {
        self.groups.iter().map(|group| (group.remark, group.members.count()))
    }

    /// Each remark, without the partitions and runs that it is about.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = T> + '_ {
        self.groups.iter().map(|group| group.remark)
    }
}

impl Members {
    fn count(&self) -> u64 {
        match self {
            Self::Days(_, more) => count::of(more.len()) + 1,
            Self::Runs(runs) => count::of(runs.len()),
            Self::Hold(_) => 1,
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = SubjectShape> + '_> {
        match self {
            Self::Days(first, more) => {
                let days = std::iter::once(first.logical_date).chain(more.iter().copied());
                let partition = |logical_date| PartitionKey { logical_date, ..first.clone() };
                Box::new(days.map(move |day| SubjectShape::Partition(partition(day))))
            }
            Self::Runs(runs) => Box::new(runs.iter().map(|&run_id| SubjectShape::Run { run_id })),
            Self::Hold(hold_id) => Box::new(std::iter::once(SubjectShape::Hold { hold_id: *hold_id })),
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::time::Timestamp;

    use super::*;

    #[test]
    fn everything_comes_back_in_its_order() {
        let key = |customer: &str, day: &str| {
            SubjectShape::Partition(PartitionKey::new("ads", customer, "daily", day).unwrap())
        };
        let run = |number: u64| SubjectShape::Run { run_id: RunId::new(Timestamp::from_micros(7), number) };
        let said = [
            (key("1", "2026-01-01"), "a"),
            (key("1", "2026-01-02"), "a"),
            (key("1", "2026-01-04"), "b"),
            (key("1", "2026-01-05"), "a"),
            (key("2", "2026-01-05"), "a"),
            (key("1", "2026-01-03"), "a"),
            (run(1), "a"),
            (run(2), "a"),
            (run(3), "b"),
        ];
        let mut kept = Keyed::default();
        for (key, what) in &said {
            kept.push(key.into(), *what);
        }
        assert_eq!((kept.len(), kept.groups.len()), (9, 7));
        assert_eq!(kept.iter().collect::<Vec<_>>(), said);
    }
}
