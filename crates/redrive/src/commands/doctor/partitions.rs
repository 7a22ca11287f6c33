//! Every partition in key order, a page at a time: its invariants, and what the raw sink holds of its current run.

use futures_util::StreamExt as _;
use redrive_core::count;
use redrive_core::filter::Filter;
use redrive_core::invariants::{self, AttemptFacts};
use redrive_core::partition::Partition;
use redrive_store::raw::RawView;
use redrive_store::{Page, View};

use super::findings::{Broken, Finding, Findings};
use super::sink::{self, Examined, Examiner};
use crate::output::progress::Progress;

const CHECK: &str = "partitions";
const PAGE: u32 = 1000;
/// How many runs are read from the sink at once. Each holds one part in memory.
const AT_ONCE: usize = 4;
/// How many runs are looked at together where none is read.
const TOGETHER: usize = 250;

pub async fn check(view: &View, raw: Option<&RawView>, quick: bool, progress: &Progress, findings: &mut Findings) {
    let mut seen = Seen::default();
    let mut sink = raw.map(|raw| Examiner::new(raw, quick));
    let walked = walk(view, sink.as_mut(), progress, findings, &mut seen).await;
    if let (Err(_), Some(sink)) = (&walked, &mut sink) {
        sink.lost("not all of it was looked at, because the partitions could not be read".to_owned());
    }
    findings.add(match walked {
        Err(error) => Finding::unusable(CHECK, error.to_string()),
        Ok(()) if seen.broken == 0 => {
            Finding::good(CHECK, format!("{} with {} attempts, sound", seen.partitions, seen.attempts))
        }
        Ok(()) => Finding::broken(CHECK, format!("{} of {} break an invariant", seen.broken, seen.partitions)),
    });
    if let Some(sink) = sink {
        findings.add(sink.finding());
    }
}

#[derive(Default)]
struct Seen {
    partitions: u64,
    attempts: u64,
    broken: u64,
}

async fn walk(
    view: &View,
    mut sink: Option<&mut Examiner<'_>>,
    progress: &Progress,
    findings: &mut Findings,
    seen: &mut Seen,
) -> redrive_store::Result<()> {
    progress.of(view.count(&Filter::default()).await?);
    let mut page = Page { limit: PAGE, ..Page::default() };
    loop {
        let partitions = view.partitions_with_attempts(page.clone()).await?;
        let Some((last, _)) = partitions.last() else { return Ok(()) };
        page.after = Some(last.state.key.clone());
        for (partition, attempts) in &partitions {
            judge(partition, attempts, findings, seen);
        }
        match &mut sink {
            Some(sink) => examine(sink, &partitions, progress, findings).await,
            None => partitions.iter().for_each(|_| progress.one_more()),
        }
    }
}

fn judge(partition: &Partition, attempts: &[AttemptFacts], findings: &mut Findings, seen: &mut Seen) {
    let breaches = invariants::check(partition, attempts);
    seen.partitions += 1;
    seen.attempts += count::of(attempts.len());
    seen.broken += u64::from(!breaches.is_empty());
    breaches.into_iter().for_each(|breach| findings.name(Broken::breach(CHECK, breach)));
}

/// Looks at the current runs of a page, a few at once, and tells of them in key order.
async fn examine(
    sink: &mut Examiner<'_>,
    partitions: &[(Partition, Vec<AttemptFacts>)],
    progress: &Progress,
    findings: &mut Findings,
) {
    if sink.is_lost() {
        return;
    }
    let claims = partitions.iter().map(|(partition, attempts)| sink::Claim::of(partition, attempts));
    let claims: Vec<Option<sink::Claim<'_>>> = claims.collect();
    let examined = match sink.quick {
        true => glance(sink.raw, claims, progress).await,
        false => read(sink.raw, claims, progress).await,
    };
    for examined in examined {
        match examined {
            Examined::Lost(why) => return sink.lost(why),
            Examined::Sound { .. } | Examined::Broken(_) => sink.take(examined, findings),
        }
    }
}

/// Reads all that the claims are about, in their order, up to where the sink is lost.
async fn read(raw: &RawView, claims: Vec<Option<sink::Claim<'_>>>, progress: &Progress) -> Vec<Examined> {
    let jobs = claims.iter().map(async |claim| {
        let examined = match claim {
            Some(claim) => Some(claim.examine(raw).await),
            None => None,
        };
        progress.one_more();
        examined
    });
    let mut all = futures_util::stream::iter(jobs).buffered(AT_ONCE);
    let mut examined = Vec::with_capacity(claims.len());
    while let Some(one) = all.next().await {
        let is_lost = matches!(one, Some(Examined::Lost(_)));
        examined.extend(one);
        if is_lost {
            break;
        }
    }
    examined
}

/// Looks whether all that the claims are about is there.
async fn glance(raw: &RawView, claims: Vec<Option<sink::Claim<'_>>>, progress: &Progress) -> Vec<Examined> {
    let jobs = claims.chunks(TOGETHER).map(async |claims| {
        let found = raw.look_over(claims.iter().flatten().map(sink::Claim::run).collect()).await;
        claims.iter().for_each(|_| progress.one_more());
        claims.iter().flatten().zip(found).map(|(claim, found)| claim.glance(found)).collect::<Vec<_>>()
    });
    futures_util::stream::iter(jobs).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().flatten().collect()
}
