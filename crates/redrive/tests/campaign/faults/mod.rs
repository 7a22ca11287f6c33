//! What goes wrong. Each fault has a file of its own and strikes once at a time.

mod clock;
mod command;
mod crash;
mod file;
mod hang;
mod kill;
mod sink;
mod watcher;

use crate::random::Random;
use crate::table::Finding;
use crate::workloads::Workload;
use crate::world::{Kind, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    WorkerKilled,
    DaemonKilled,
    CommandKilled,
    WatcherKilled,
    DatabaseCrashed,
    DatabaseHung,
    SinkGone,
    FileGone,
    /// The last one: from then on times can no longer be compared.
    ClockSet,
}

/// What one strike came to.
#[derive(Debug, Default)]
pub struct Struck {
    /// The workloads that were hit in the middle of something.
    pub workloads: Vec<Workload>,
    /// Processes that were killed.
    pub kills: u64,
    /// What was seen to be wrong at once.
    pub findings: Vec<Finding>,
}

impl Fault {
    pub fn word(self) -> &'static str {
        match self {
            Self::WorkerKilled => "worker killed",
            Self::DaemonKilled => "daemon killed",
            Self::CommandKilled => "command killed half-way, then repeated",
            Self::WatcherKilled => "watchers of programs and worker killed",
            Self::DatabaseCrashed => "database crashed (SQLite: all processes)",
            Self::DatabaseHung => "database hung, processes told to stop",
            Self::SinkGone => "sink gone for a while",
            Self::FileGone => "database file gone for a while",
            Self::ClockSet => "wall clock set by an hour, either way",
        }
    }

    pub fn can_happen_on(self, kind: Kind) -> bool {
        self != Self::FileGone || kind == Kind::Sqlite
    }

    pub fn strike(self, world: &mut World, random: &mut Random) -> Struck {
        match self {
            Self::WorkerKilled => kill::worker(world, random),
            Self::DaemonKilled => kill::daemon(world, random),
            Self::CommandKilled => command::strike(world, random),
            Self::WatcherKilled => watcher::strike(world, random),
            Self::DatabaseCrashed => crash::strike(world, random),
            Self::DatabaseHung => hang::strike(world, random),
            Self::SinkGone => sink::strike(world, random),
            Self::FileGone => file::strike(world, random),
            Self::ClockSet => clock::strike(world, random),
        }
    }

    /// What must be so again before the work can come to its end.
    pub fn end(self, world: &mut World) {
        if self == Self::ClockSet {
            clock::end(world);
        }
    }
}
