//! What may happen, and how it is made up at random.

use super::memory::policy;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use redrive_core::failure::ErrorClass;
use redrive_core::key::{CustomerId, PartitionKey, Source};
use redrive_core::lane::Lane;
use redrive_core::partition::Judgement;
use redrive_core::retry::Grant;
use redrive_core::run::{End, Fault, Verdict};
use redrive_core::time::Timestamp;

use crate::support::{START, key};

pub const SOURCES: &[&str] = &["ads", "ads ", "Ö"];
pub const CUSTOMERS: &[&str] = &["a", "ß"];
pub const CATEGORIES: &[&str] = &["any%", "100%", "x"];
const DATES: &[&str] = &["2026-01-01", "2026-01-02"];

/// A run to speak of: of those under way, or of all.
#[derive(Debug, Clone)]
pub struct Pick {
    pub nth: Index,
    pub running: bool,
}

/// Which copy of a run a worker shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    AsItIs,
    AsClaimed,
    /// With a fence that was never given out.
    Forged,
}

#[derive(Debug, Clone)]
pub enum Wish {
    Retry {
        clear_terminal: bool,
        stale: bool,
        grant: Option<Grant>,
    },
    Reprocess,
    Withdraw,
    Backfill {
        force_pending: bool,
    },
    Mark {
        threshold: u32,
    },
    Clear,
    Pause,
    Resume,
    /// The last change of this partition, whatever it was.
    Undo,
}

#[derive(Debug, Clone)]
pub enum Op {
    Wait {
        micros: u64,
    },
    Enqueue(Vec<(PartitionKey, Lane)>),
    Ask {
        key: PartitionKey,
        wish: Wish,
        overtaken: bool,
    },
    Cool {
        source: Source,
        customer: Option<CustomerId>,
        seconds: u64,
    },
    Claim {
        limit: u32,
        sources: Option<Vec<Source>>,
        most: Option<u32>,
    },
    Judge {
        pick: Pick,
        forged: bool,
        judgement: Judgement,
    },
    Release {
        pick: Pick,
        forged: bool,
    },
    Beat {
        picks: Vec<Pick>,
        forged: bool,
        seconds: u64,
    },
    Expire,
    Submit {
        category: &'static str,
        external_id: Option<&'static str>,
        submitted_at: Timestamp,
    },
    /// Jobs of one category, each a little younger than the one before.
    SubmitMany {
        category: &'static str,
        jobs: u32,
        submitted_at: Timestamp,
    },
    ClaimJobs {
        limit: u32,
        categories: Option<Vec<String>>,
    },
    Record {
        picks: Vec<Pick>,
        shown: Shown,
        report: End,
    },
    Cancel(Pick),
    RetryRun(Pick),
}

fn keys() -> impl Strategy<Value = PartitionKey> {
    (select(SOURCES), select(CUSTOMERS), select(DATES))
        .prop_map(|(source, customer, date)| key(source, customer, "daily", date))
}

fn picks() -> impl Strategy<Value = Pick> {
    (any::<Index>(), proptest::bool::weighted(0.8)).prop_map(|(nth, running)| Pick { nth, running })
}

/// Mostly one; now and then so many that they may be all of a bundle, or of several.
fn some_picks() -> impl Strategy<Value = Vec<Pick>> {
    prop_oneof![3 => vec(picks(), 1), 1 => vec(picks(), 2..50)]
}

fn rare() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.15)
}

fn sources() -> impl Strategy<Value = Option<Vec<Source>>> {
    let some = subsequence(SOURCES, 0..=SOURCES.len());
    option::weighted(0.3, some.prop_map(|names| names.into_iter().map(|name| name.parse().unwrap()).collect()))
}

fn categories() -> impl Strategy<Value = Option<Vec<String>>> {
    let some = subsequence(CATEGORIES, 0..=CATEGORIES.len());
    option::weighted(0.4, some.prop_map(|names| names.into_iter().map(str::to_owned).collect()))
}

fn messages() -> impl Strategy<Value = String> {
    select(&["boom", "[terminal] gone", "", "it's\0odd"][..]).prop_map(str::to_owned)
}

fn judgements() -> impl Strategy<Value = Judgement> {
    let hint = option::weighted(0.3, 0i64..900_000_000);
    let rejected = (select(ErrorClass::ALL), messages(), hint).prop_map(|(class, message, hint)| Judgement::Rejected {
        class,
        message,
        not_before: hint.map(|micros| Timestamp::from_micros(START.micros() + micros)),
    });
    prop_oneof![(0u64..5).prop_map(|records| Judgement::Accepted { records }), rejected]
}

fn reports() -> impl Strategy<Value = End> {
    let metrics = || option::of(Just("{\"n\":1}".to_owned()));
    let hint = option::of((0u64..90).prop_map(std::time::Duration::from_secs));
    let completed =
        (select(Verdict::ALL), metrics()).prop_map(|(verdict, metrics)| End::Completed { verdict, metrics });
    let failed = (select(ErrorClass::ALL), messages(), option::of(messages()), hint, metrics()).prop_map(
        |(class, message, trace, retry_after, metrics)| End::Failed {
            fault: Fault { class, message, trace, retry_after },
            metrics,
            policy: policy(),
        },
    );
    prop_oneof![2 => completed, 4 => failed, 1 => Just(End::Released { why: None })]
}

fn wishes() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => (any::<bool>(), rare(), option::weighted(0.3, Just(Grant::Full)))
            .prop_map(|(clear_terminal, stale, grant)| Wish::Retry { clear_terminal, stale, grant }),
        2 => Just(Wish::Reprocess),
        1 => Just(Wish::Withdraw),
        1 => any::<bool>().prop_map(|force_pending| Wish::Backfill { force_pending }),
        2 => (1u32..3).prop_map(|threshold| Wish::Mark { threshold }),
        1 => Just(Wish::Clear),
        1 => Just(Wish::Pause),
        2 => Just(Wish::Resume),
        1 => Just(Wish::Undo),
    ]
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let micros =
        prop_oneof![0u64..100, 1_000_000u64..30_000_000, Just(60_000_000), Just(120_000_000), 0u64..400_000_000];
    let lanes = select(Lane::ALL);
    let customer = option::of(select(CUSTOMERS).prop_map(|name| name.parse().unwrap()));
    let shown = prop_oneof![2 => Just(Shown::AsItIs), 3 => Just(Shown::AsClaimed), 1 => Just(Shown::Forged)];
    let age = || (0i64..200_000_000).prop_map(|micros| Timestamp::from_micros(START.micros() + micros));
    let age_of_many = age();
    let external = option::weighted(0.4, select(&["1", "2"][..]));
    let op = prop_oneof![
        3 => micros.prop_map(|micros| Op::Wait { micros }),
        3 => vec((keys(), lanes), 0..6).prop_map(Op::Enqueue),
        6 => (keys(), wishes(), proptest::bool::weighted(0.3)).prop_map(|(key, wish, overtaken)| Op::Ask { key, wish, overtaken }),
        1 => (select(SOURCES), customer, 0u64..200)
            .prop_map(|(name, customer, seconds)| Op::Cool { source: name.parse().unwrap(), customer, seconds }),
        4 => (0u32..8, sources(), option::weighted(0.3, 0u32..4))
            .prop_map(|(limit, sources, most)| Op::Claim { limit, sources, most }),
        5 => (picks(), rare(), judgements()).prop_map(|(pick, forged, judgement)| Op::Judge { pick, forged, judgement }),
        1 => (picks(), rare()).prop_map(|(pick, forged)| Op::Release { pick, forged }),
        2 => (some_picks(), rare(), 1u64..200).prop_map(|(picks, forged, seconds)| Op::Beat { picks, forged, seconds }),
        1 => Just(Op::Expire),
        3 => (select(CATEGORIES), external, age())
            .prop_map(|(category, external_id, submitted_at)| Op::Submit { category, external_id, submitted_at }),
        1 => (select(CATEGORIES), 16u32..40, age_of_many)
            .prop_map(|(category, jobs, submitted_at)| Op::SubmitMany { category, jobs, submitted_at }),
        3 => (prop_oneof![0u32..5, 16u32..40], categories()).prop_map(|(limit, categories)| Op::ClaimJobs { limit, categories }),
        4 => (some_picks(), shown, reports()).prop_map(|(picks, shown, report)| Op::Record { picks, shown, report }),
        1 => picks().prop_map(Op::Cancel),
        1 => picks().prop_map(Op::RetryRun),
    ];
    // Something is wanted from the start, or the first half of a sequence would have nothing to do.
    let first = vec((keys(), select(Lane::ALL)), 4..12).prop_map(Op::Enqueue);
    (first, vec(op, 1..80)).prop_map(|(first, mut ops)| {
        ops.insert(0, first);
        ops
    })
}
