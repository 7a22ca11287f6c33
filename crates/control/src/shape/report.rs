//! What an operation did.

use redrive_core::count;
use redrive_core::id::{HoldId, OpId};
use redrive_core::partition::{Partition, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::Run;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::extent::Extent;
use super::keyed::{Keyed, SubjectRef};
use super::operation::SubjectShape;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changed {
    #[serde(flatten)]
    pub subject: SubjectShape,
    #[serde(flatten)]
    pub words: Words,
}

/// What a partition, a run or a hold was and what it is, in one word each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Words {
    pub from: Option<&'static str>,
    pub to: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    #[serde(flatten)]
    pub subject: SubjectShape,
    pub reason: Reason,
    /// Whether a rule stood against it, as opposed to there being nothing to do.
    #[serde(skip)]
    pub refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failed {
    #[serde(flatten)]
    pub subject: SubjectShape,
    pub error: String,
}

/// Why an operation ended before its time. What it had done by then stands, and running it again finishes the work.
#[derive(Debug)]
pub enum Halt {
    Interrupted,
    Fault(crate::Error),
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    pub operation: &'static str,
    pub op_id: Option<OpId>,
    pub dry_run: bool,
    pub matched: u64,
    #[serde(serialize_with = "changed")]
    #[schemars(with = "Vec<Changed>")]
    changed: Keyed<Words>,
    #[serde(serialize_with = "skipped")]
    #[schemars(with = "Vec<Skipped>")]
    skipped: Keyed<Refused>,
    pub failed: Vec<Failed>,
    /// How many more would change but for the request's limit; none where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_limit: Option<u64>,
    /// What a dry run would change.
    #[serde(skip)]
    pub extent: Extent,
    #[serde(skip)]
    pub halt: Option<Halt>,
}

impl Report {
    pub fn new(operation: &'static str, dry_run: bool) -> Self {
        Self {
            operation,
            op_id: None,
            dry_run,
            matched: 0,
            changed: Keyed::default(),
            skipped: Keyed::default(),
            failed: vec![],
            beyond_limit: None,
            extent: Extent::default(),
            halt: None,
        }
    }

    /// The report of doing what this one counted: what was skipped then is skipped, and `planned` are still to be done.
    pub(crate) fn for_doing(self, planned: u64) -> Self {
        let matched = self.matched.saturating_sub(planned);
        Self { dry_run: false, matched, changed: Keyed::default(), ..self }
    }

    pub(crate) fn change(&mut self, before: Option<&Partition>, after: &Partition) {
        if self.dry_run {
            self.extent.add(before.unwrap_or(after));
        }
        let words = Words { from: before.map(status_word), to: status_word(after) };
        self.changed.push(SubjectRef::Partition(&after.state.key), words);
    }

    pub(crate) fn change_run(&mut self, before: &Run, after: &Run) {
        let words = Words { from: Some(before.state.as_str()), to: after.state.as_str() };
        self.changed.push(SubjectRef::Run(after.run_id), words);
    }

    pub(crate) fn change_hold(&mut self, id: HoldId, words: Words) {
        self.changed.push(SubjectRef::Hold(id), words);
    }

    /// Takes over what the report of a further step says.
    pub(crate) fn absorb(&mut self, step: Self) {
        for (subject, words) in step.changed.iter() {
            self.changed.push(SubjectRef::from(&subject), words);
        }
        for (subject, refused) in step.skipped.iter() {
            self.skipped.push(SubjectRef::from(&subject), refused);
        }
        self.matched += step.matched;
        self.failed.extend(step.failed);
        self.op_id = self.op_id.or(step.op_id);
    }

    pub(crate) fn skip(&mut self, subject: SubjectRef<'_>, refused: Refused) {
        self.skipped.push(subject, refused);
    }

    /// What was changed, in the order in which it was.
    pub fn changed(&self) -> impl Iterator<Item = Changed> + '_ {
        self.changed.iter().map(Changed::from)
    }

    /// What was left as it was, and why.
    pub fn skipped(&self) -> impl Iterator<Item = Skipped> + '_ {
        self.skipped.iter().map(Skipped::from)
    }

    pub fn count_changed(&self) -> u64 {
        count::of(self.changed.len())
    }

    pub fn count_skipped(&self) -> u64 {
        count::of(self.skipped.len())
    }

    /// What it is about, in the plural.
    pub fn noun(&self) -> &'static str {
        let first = self.changed().map(|changed| changed.subject).next();
        let first = first.or_else(|| self.skipped().map(|skipped| skipped.subject).next());
        match first.or_else(|| self.failed.first().map(|failed| failed.subject.clone())) {
            Some(SubjectShape::Run { .. }) => "runs",
            Some(SubjectShape::Hold { .. }) => "holds",
            Some(SubjectShape::Partition(_)) | None => "partitions",
        }
    }

    /// How many were left as they were, by the reason, the most frequent first.
    pub fn count_by_reason(&self) -> Vec<(Reason, u64)> {
        let mut counts: Vec<(Reason, u64)> = Vec::new();
        for (refused, count) in self.skipped.counts() {
            match counts.iter_mut().find(|(reason, _)| *reason == refused.reason()) {
                Some((_, sum)) => *sum += count,
                None => counts.push((refused.reason(), count)),
            }
        }
        counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), reason.as_str()));
        counts
    }

    pub fn any_refused(&self) -> bool {
        self.skipped.remarks().any(is_rule)
    }
}

fn changed<S: Serializer>(changed: &Keyed<Words>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(changed.iter().map(Changed::from))
}

fn skipped<S: Serializer>(skipped: &Keyed<Refused>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(skipped.iter().map(Skipped::from))
}

impl From<(SubjectShape, Words)> for Changed {
    fn from((subject, words): (SubjectShape, Words)) -> Self {
        Self { subject, words }
    }
}

impl From<(SubjectShape, Refused)> for Skipped {
    fn from((subject, why): (SubjectShape, Refused)) -> Self {
        Self { subject, reason: why.reason(), refused: is_rule(why) }
    }
}

fn is_rule(refused: Refused) -> bool {
    match refused {
        Refused::Rule(_) => true,
        Refused::NoOp(_) => false,
    }
}

/// One word for a partition: its status, or what an operator asked for beside it.
fn status_word(partition: &Partition) -> &'static str {
    let control = &partition.control;
    match partition.state.status {
        _ if control.paused.is_some() => "paused",
        Status::Failed if control.terminal.is_some() => "terminal",
        Status::Success if control.reprocess_rejected() => "reprocess_rejected",
        Status::Success if control.reprocess.is_some() => "reprocess",
        Status::Pending | Status::Success | Status::Failed => partition.state.status.as_str(),
    }
}
