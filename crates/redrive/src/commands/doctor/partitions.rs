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
    let (raw, quick) = (sink.raw, sink.quick);
    let jobs = partitions.iter().map(async |(partition, attempts)| {
        let examined = match sink::Claim::of(partition, attempts) {
            Some(claim) => Some(claim.examine(raw, quick).await),
            None => None,
        };
        progress.one_more();
        examined
    });
    let mut all = futures_util::stream::iter(jobs).buffered(AT_ONCE);
    while let Some(examined) = all.next().await {
        match examined {
            Some(Examined::Lost(why)) => return sink.lost(why),
            Some(examined) => sink.take(examined, findings),
            None => {}
        }
    }
}
