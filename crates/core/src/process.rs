//! Living processes: workers, daemons and servers, what each serves and by which configuration. A process is alive by when
//! it was last seen, and by nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::key::Source;
use crate::run::Workload;
use crate::time::Timestamp;
use crate::word::words;

words!(
    Kind, "process kind" {
        Worker = "worker",
        Daemon = "daemon",
        Server = "server",
        /// A worker of somebody else's making, which claims jobs through the API.
        Outside = "outside",
    }
);

/// How often a process says that it is there.
pub const BEAT: Duration = Duration::from_secs(10);

/// How long after its last beat a process counts as alive: three beats may be late.
pub const ALIVE_FOR: Duration = Duration::from_secs(45);

/// How long an outside worker that lives may ask for no work before a person hears of it.
pub const ASKS_WITHIN: Duration = Duration::from_secs(300);

/// How long a process that ended without a word is still shown.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(86_400);

/// What a process takes on, by its own configuration and flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Serves {
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// The sources that it extracts, each with its limit of attempts in flight.
    #[serde(default)]
    pub sources: BTreeMap<Source, Option<u32>>,
    /// The categories of jobs that it handles.
    #[serde(default)]
    pub categories: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub id: Uuid,
    pub kind: Kind,
    /// As runs name their worker.
    pub name: String,
    pub host: String,
    pub pid: u32,
    pub version: String,
    /// The fingerprint of the configuration that it follows.
    pub config: String,
    pub serves: Serves,
    pub started_at: Timestamp,
    pub last_seen: Timestamp,
    /// When a worker last claimed something, to the beat; when an outside worker last asked for work.
    pub last_claim: Option<Timestamp>,
    /// Whether an outside worker was asked to take on nothing more.
    pub drain: bool,
}

impl Process {
    /// Whether it follows a configuration, which an outside worker does not.
    pub fn is_configured(&self) -> bool {
        match self.kind {
            Kind::Worker | Kind::Daemon | Kind::Server => true,
            Kind::Outside => false,
        }
    }

    pub fn is_alive(&self, now: Timestamp) -> bool {
        now.since(self.last_seen) < ALIVE_FOR
    }

    /// Whether it takes on work, as far as can be seen: an outside worker is known by its asking. One that was asked to drain
    /// does as it was told.
    pub fn is_claiming(&self, now: Timestamp) -> bool {
        match self.kind {
            Kind::Worker | Kind::Daemon | Kind::Server => true,
            Kind::Outside => self.drain || now.since(self.last_claim.unwrap_or(self.started_at)) < ASKS_WITHIN,
        }
    }

    pub fn extracts(&self, source: &Source) -> bool {
        self.serves.sources.contains_key(source)
    }
}

/// The living processes of some, with what an operator asks of them.
#[derive(Debug, Clone, Default)]
pub struct Living<'a>(Vec<&'a Process>);

impl<'a> Living<'a> {
    pub fn of(processes: &'a [Process], now: Timestamp) -> Self {
        Self(processes.iter().filter(|process| process.is_alive(now)).collect())
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.0.iter().any(|process| process.kind == kind)
    }

    /// The workers that extract a source.
    pub fn extracting(&self, source: &Source) -> impl Iterator<Item = &'a Process> {
        self.0.iter().copied().filter(|process| process.extracts(source))
    }

    pub fn handles(&self, category: &str) -> bool {
        self.0.iter().any(|process| process.serves.categories.iter().any(|served| served == category))
    }

    /// The limit that holds for a source: the largest of those that its workers know, and none where one knows none.
    pub fn limit(&self, source: &Source) -> Option<u32> {
        let limits: Option<Vec<u32>> = self.extracting(source).map(|process| process.serves.sources[source]).collect();
        limits.and_then(|limits| limits.into_iter().max())
    }

    /// Those that follow another configuration than the one given, or than the others of them.
    pub fn drifting(&self, own: &str) -> Vec<&'a Process> {
        self.0.iter().copied().filter(|process| process.is_configured() && process.config != own).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a Process> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    fn process(kind: Kind, config: &str, ago: u64, sources: &[(&str, Option<u32>)]) -> Process {
        let sources = sources.iter().map(|(source, limit)| (source.parse().unwrap(), *limit)).collect();
        Process {
            id: Uuid::nil(),
            kind,
            name: "ada@here pid 1".to_owned(),
            host: "here".to_owned(),
            pid: 1,
            version: "0.1.0".to_owned(),
            config: config.to_owned(),
            serves: Serves { sources, ..Serves::default() },
            started_at: NOW,
            last_seen: NOW.saturating_sub(Duration::from_secs(ago)),
            last_claim: None,
            drain: false,
        }
    }

    #[test]
    fn a_process_lives_by_when_it_was_last_seen() {
        let all = [process(Kind::Worker, "a", 44, &[("ads", None)]), process(Kind::Daemon, "a", 45, &[])];
        let living = Living::of(&all, NOW);
        assert!(living.has(Kind::Worker) && !living.has(Kind::Daemon));
        assert_eq!(living.extracting(&"ads".parse().unwrap()).count(), 1);
        assert_eq!(living.extracting(&"crm".parse().unwrap()).count(), 0);
        let ahead = process(Kind::Worker, "a", 0, &[]);
        assert!(ahead.is_alive(NOW.saturating_sub(Duration::from_secs(5))), "seen in the future is seen");
    }

    #[test]
    fn an_outside_worker_claims_while_it_asks_or_was_told_not_to() {
        let asked = |ago| Process {
            started_at: NOW.saturating_sub(Duration::from_secs(9999)),
            last_claim: Some(NOW.saturating_sub(Duration::from_secs(ago))),
            ..process(Kind::Outside, "", 1, &[])
        };
        assert!(asked(299).is_claiming(NOW));
        assert!(!asked(300).is_claiming(NOW));
        assert!(!Process { last_claim: None, ..asked(0) }.is_claiming(NOW), "it began long ago and has never asked");
        assert!(Process { drain: true, ..asked(300) }.is_claiming(NOW));
        assert!(Process { kind: Kind::Worker, ..asked(300) }.is_claiming(NOW), "a worker of ours claims what there is");
    }

    #[test]
    fn the_limit_in_force_is_the_widest_that_a_living_worker_knows() {
        let source = "ads".parse().unwrap();
        let (two, four, free) = (
            process(Kind::Worker, "a", 1, &[("ads", Some(2))]),
            process(Kind::Worker, "a", 1, &[("ads", Some(4))]),
            process(Kind::Worker, "a", 1, &[("ads", None)]),
        );
        assert_eq!(Living::of(std::slice::from_ref(&two), NOW).limit(&source), Some(2));
        assert_eq!(Living::of(&[two.clone(), four.clone()], NOW).limit(&source), Some(4));
        assert_eq!(Living::of(&[two, free], NOW).limit(&source), None);
        assert_eq!(Living::default().limit(&source), None);
    }

    #[test]
    fn drift_is_another_configuration_than_ones_own() {
        let all = [
            process(Kind::Worker, "a", 1, &[]),
            process(Kind::Daemon, "b", 1, &[]),
            process(Kind::Worker, "c", 90, &[]),
        ];
        let names = |own| Living::of(&all, NOW).drifting(own).into_iter().map(|p| p.config.clone()).collect::<Vec<_>>();
        assert_eq!(names("a"), ["b"]);
        assert_eq!(names("z"), ["a", "b"]);
    }
}
