//! A campaign: faults one after another, each many times, and a look at everything after each.

use std::time::Instant;

use redrive_fixture::TestDatabase;

use crate::faults::Fault;
use crate::program_starts;
use crate::random::{Random, full_seed, setting};
use crate::table::{Cell, Finding, Table};
use crate::tamper;
use crate::workloads::Workload;
use crate::world::{Kind, World};

struct Plan {
    seed: u64,
    workers: usize,
    strikes: &'static [(Fault, u32)],
    /// How much of it is done.
    percent: u32,
    /// Only the faults whose names have this in them.
    only: String,
}

const SMALL: Plan = Plan {
    seed: 20_261,
    workers: 3,
    percent: 100,
    only: String::new(),
    strikes: &[
        (Fault::WorkerKilled, 2),
        (Fault::DaemonKilled, 1),
        (Fault::CommandKilled, 3),
        (Fault::WatcherKilled, 1),
        (Fault::DatabaseCrashed, 1),
        (Fault::SinkGone, 1),
    ],
};

const FULL: &[(Fault, u32)] = &[
    (Fault::WorkerKilled, 330),
    (Fault::DaemonKilled, 60),
    (Fault::CommandKilled, 160),
    (Fault::WatcherKilled, 60),
    (Fault::DatabaseCrashed, 24),
    (Fault::DatabaseHung, 12),
    (Fault::SinkGone, 10),
    (Fault::FileGone, 6),
    (Fault::ClockSet, 16),
];
/// Kills that are aimed at the start of programs, on each database.
const AIMED: u32 = 500;
const AIMED_WORD: &str = "worker killed while it starts programs";

impl Plan {
    fn run(&self, kind: Kind) -> (World, Table) {
        let mut world = World::new(kind, self.workers);
        let (mut table, mut random) = (Table::default(), Random(self.seed));
        let meant = |fault: Fault| fault.can_happen_on(kind) && fault.word().contains(&self.only);
        for (order, (fault, strikes)) in self.strikes.iter().enumerate().filter(|(_, it)| meant(it.0)) {
            let (cell, begun) = (Cell { order, fault: fault.word(), database: kind.word() }, Instant::now());
            for _ in 0..part_of(*strikes, self.percent) {
                let struck = fault.strike(&mut world, &mut random);
                table.tried(cell, &struck.workloads, struck.kills);
                table.failed(cell, &struck.findings);
            }
            fault.end(&mut world);
            let findings = world.settle_and_check();
            table.failed(cell, &findings);
            println!("{:>4} s  {} on {}", begun.elapsed().as_secs(), fault.word(), kind.word());
        }
        table.failed(Cell { order: 99, fault: "the end", database: kind.word() }, &end(&mut world));
        (world, table)
    }
}

fn part_of(count: u32, percent: u32) -> u32 {
    (count * percent / 100).max(1)
}

/// All processes stop in order, and the program itself finds nothing either.
fn end(world: &mut World) -> Vec<Finding> {
    let mut findings = world.stop();
    if !world.has_bundled {
        findings.push(Finding::general("no jobs were ever in bundles".to_owned()));
    }
    let mut doctor = world.spawn("doctor");
    let code = doctor.code();
    if code != Some(0) {
        findings.push(Finding::general(format!("doctor ended with {code:?}: {}", world.rig.log(&doctor))));
    }
    findings
}

fn small(kind: Kind) -> World {
    println!("seed {}", SMALL.seed);
    let (world, table) = SMALL.run(kind);
    println!("{table}");
    assert!(table.findings.is_empty(), "{:#?}", table.findings);
    world
}

/// After it, the checker is shown that it can see: each thing that must not be is done, and found.
#[test]
fn a_small_campaign_loses_nothing_on_sqlite_and_the_checker_sees() {
    let mut world = small(Kind::Sqlite);
    assert_eq!(world.check(), Vec::new());
    tamper::all(&mut world);
}

#[test]
fn a_small_campaign_loses_nothing_on_postgres() {
    small(Kind::Postgres);
}

/// Kills that are aimed at the start of programs: they have a world of their own, in which programs never end.
fn aimed(kind: Kind, seed: u64, kills: u32) -> Table {
    let mut table = Table::default();
    let cell = Cell { order: 50, fault: AIMED_WORD, database: kind.word() };
    let database = match kind {
        Kind::Sqlite => TestDatabase::sqlite(),
        Kind::Postgres => TestDatabase::postgres(),
    };
    let left = program_starts::Aimed { seed, kills, customers: 28 }.run(database.into());
    for _ in 0..kills {
        table.tried(cell, &[Workload::Extract], 1);
    }
    if left > 0 {
        table.failed(cell, &[Finding::of(Workload::Extract, format!("{left} programs outlived their workers"))]);
    }
    table
}

#[test]
#[ignore = "takes minutes; ./chaos runs it"]
fn the_whole_campaign_loses_nothing() {
    let (seed, percent) = (full_seed(), setting("REDRIVE_CHAOS_PERCENT").unwrap_or(100));
    let only: String = setting("REDRIVE_CHAOS_ONLY").unwrap_or_default();
    println!("seed {seed}, {percent} % of the campaign{}", if only.is_empty() { "" } else { ", some faults only" });
    let whole = |kind| {
        let (_world, mut table) = Plan { seed, workers: 5, strikes: FULL, percent, only: only.clone() }.run(kind);
        if AIMED_WORD.contains(&only) {
            table.join(aimed(kind, seed, part_of(AIMED, percent)));
        }
        table
    };
    let mut table = Table::default();
    std::thread::scope(|scope| {
        let whole = &whole;
        let databases = [Kind::Sqlite, Kind::Postgres].map(|kind| scope.spawn(move || whole(kind)));
        for database in databases {
            table.join(database.join().unwrap());
        }
    });
    println!("\n{table}");
    assert!(table.findings.is_empty(), "{:#?}", table.findings);
}
