//! The overview, as scripts have it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Add;

use redrive_core::key::{LogicalDate, Source};
use redrive_core::process::{Kind, Process, Serves};
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use redrive_store::{BOUND, RunCounts, SourceCounts};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::{GroupShape, HoldShape};

/// A count that stops at a bound: what reaches it is at least that many. JSON has the number; what is only a lower bound is
/// named beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bounded(u64);

impl Bounded {
    const MOST: u64 = BOUND - 1;

    pub fn new(count: u64) -> Self {
        Self(count.min(BOUND))
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether there may be more.
    pub fn is_at_least(self) -> bool {
        self.0 > Self::MOST
    }

    pub fn number(self) -> u64 {
        self.0.min(Self::MOST)
    }
}

impl Add for Bounded {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.0 + other.0)
    }
}

impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.is_at_least() { "≥ " } else { "" };
        match (self.number() / 1000, self.number() % 1000) {
            (0, rest) => write!(f, "{at_least}{rest}"),
            (thousands, rest) => write!(f, "{at_least}{thousands},{rest:03}"),
        }
    }
}

impl JsonSchema for Bounded {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bounded".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": Self::MOST})
    }
}

impl Serialize for Bounded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.number())
    }
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatusShape {
    pub sources: Vec<SourceShape>,
    pub runs: Vec<RunCountsShape>,
    pub processes: Vec<ProcessShape>,
    pub holds: Vec<HoldShape>,
    pub groups: Vec<GroupShape>,
    /// Jobs that wait for a worker, by category. Whoever reads the overview has them in `needs_attention`, where nobody serves
    /// them.
    #[serde(skip)]
    pub jobs: Vec<WaitingJobs>,
    pub now: Timestamp,
}

/// Jobs of a category that are queued or due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJobs {
    pub category: String,
    pub count: Bounded,
    /// The `[process.NAME]` section of this configuration that names the category.
    pub section: Option<SectionShape>,
}

/// A `[process.NAME]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionShape {
    pub name: String,
    /// Whether a worker handles its jobs; otherwise outside workers claim them.
    pub has_handler: bool,
}

/// What needs a person, and how everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OverviewShape {
    pub needs_attention: Vec<TodoShape>,
    #[serde(flatten)]
    pub status: StatusShape,
}

/// Something to do, with the command that does it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TodoShape {
    pub what: String,
    pub count: Bounded,
    pub since: Option<Timestamp>,
    pub command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceShape {
    pub source: Source,
    pub success: Bounded,
    pub pending: PendingShape,
    pub failed: FailedShape,
    /// Expected by a calendar and not there; none where no calendar is configured here.
    pub missing: Option<Bounded>,
    /// The latest day that has succeeded.
    pub newest_success: Option<LogicalDate>,
    /// The counts that are lower bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PendingShape {
    pub queued: Bounded,
    pub running: Bounded,
    pub cooling_down: Bounded,
    pub held: Bounded,
    pub paused: Bounded,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedShape {
    pub waiting: Bounded,
    pub due: Bounded,
    #[serde(rename = "final")]
    pub final_errors: Bounded,
    pub exhausted: Bounded,
    pub marked: Bounded,
    pub paused: Bounded,
}

impl SourceShape {
    /// `missing` is how many days are, and whether all days were looked at.
    pub fn new(source: Source, counts: SourceCounts, missing: Option<(u64, bool)>) -> Self {
        let of = Bounded::new;
        let pending = PendingShape {
            queued: of(counts.queued),
            running: of(counts.running),
            cooling_down: of(counts.cooling_down),
            held: of(counts.held),
            paused: of(counts.paused_pending),
        };
        let failed = FailedShape {
            waiting: of(counts.waiting),
            due: of(counts.due),
            final_errors: of(counts.final_errors),
            exhausted: of(counts.exhausted),
            marked: of(counts.marked),
            paused: of(counts.paused_failed),
        };
        let (success, lacking) = (of(counts.success), missing.map(|(days, _)| of(days)));
        let mut at_least: Vec<&'static str> = [
            ("success", success),
            ("pending.queued", pending.queued),
            ("pending.running", pending.running),
            ("pending.cooling_down", pending.cooling_down),
            ("pending.held", pending.held),
            ("pending.paused", pending.paused),
            ("failed.waiting", failed.waiting),
            ("failed.due", failed.due),
            ("failed.final", failed.final_errors),
            ("failed.exhausted", failed.exhausted),
            ("failed.marked", failed.marked),
            ("failed.paused", failed.paused),
        ]
        .into_iter()
        .filter(|(_, count)| count.is_at_least())
        .map(|(name, _)| name)
        .collect();
        if missing.is_some_and(|(_, is_all)| !is_all) || lacking.is_some_and(Bounded::is_at_least) {
            at_least.push("missing");
        }
        Self { source, success, pending, failed, missing: lacking, newest_success: counts.newest_success, at_least }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunCountsShape {
    pub workload: Workload,
    pub storing: Bounded,
    pub queued: Bounded,
    pub running: Bounded,
    pub waiting: Bounded,
    pub done: Bounded,
    pub dead: Bounded,
}

impl From<RunCounts> for RunCountsShape {
    fn from(counts: RunCounts) -> Self {
        let RunCounts { workload, storing, queued, running, waiting, done, dead } = counts;
        let of = Bounded::new;
        Self {
            workload,
            storing: of(storing),
            queued: of(queued),
            running: of(running),
            waiting: of(waiting),
            done: of(done),
            dead: of(dead),
        }
    }
}

impl RunCountsShape {
    pub fn is_empty(&self) -> bool {
        let Self { workload: _, storing, queued, running, waiting, done, dead } = *self;
        [storing, queued, running, waiting, done, dead].into_iter().all(Bounded::is_zero)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessShape {
    pub kind: Kind,
    pub name: String,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub config: String,
    pub started_at: Timestamp,
    pub last_seen: Timestamp,
    pub last_claim: Option<Timestamp>,
    pub alive: bool,
    /// It was asked to take on nothing more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// It lives, and follows another configuration than the one that is looked with.
    pub drift: bool,
    pub serves: Serves,
}

impl ProcessShape {
    pub fn new(process: Process, config: &str, now: Timestamp) -> Self {
        let alive = process.is_alive(now);
        Self {
            drift: alive && process.is_configured() && process.config != config,
            drain: process.drain,
            alive,
            kind: process.kind,
            name: process.name,
            host: process.host,
            pid: process.pid,
            version: process.version,
            config: process.config,
            started_at: process.started_at,
            last_seen: process.last_seen,
            last_claim: process.last_claim,
            serves: process.serves,
        }
    }

    pub fn serves_source(&self, source: &Source) -> bool {
        self.serves.sources.contains_key(source)
    }

    pub fn serves_workload(&self, workload: Workload) -> bool {
        self.serves.workloads.contains(&workload)
    }

    /// Whether it takes on jobs of a category. An outside worker that names none takes on all.
    pub fn serves_category(&self, category: &str) -> bool {
        match self.kind {
            Kind::Outside if self.serves.categories.is_empty() => true,
            Kind::Outside | Kind::Worker | Kind::Daemon | Kind::Server => {
                self.serves.categories.iter().any(|served| served == category)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_at_its_bound_says_that_there_may_be_more() {
        assert_eq!(Bounded::new(0).to_string(), "0");
        assert_eq!(Bounded::new(999).to_string(), "999");
        assert_eq!(Bounded::new(1_000).to_string(), "1,000");
        assert_eq!(Bounded::new(10_000).to_string(), "10,000");
        assert_eq!(Bounded::new(10_001).to_string(), "≥ 10,000");
        assert_eq!((Bounded::new(9_000) + Bounded::new(9_000)).to_string(), "≥ 10,000");
        assert_eq!(serde_json::to_string(&Bounded::new(123_456)).unwrap(), "10000");
    }
}
