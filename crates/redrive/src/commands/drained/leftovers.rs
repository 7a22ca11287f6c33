//! What a drain has left because its source cannot be used here.

use redrive_control::Insight;
use redrive_control::shape::Bounded;
use redrive_core::hold::{Cause, Probing, Trip};
use redrive_core::key::Source;
use redrive_core::text::one_line;

use crate::error::Result;
use crate::output;

/// What of a source was left because it cannot be used.
#[derive(Debug, Clone)]
pub(super) struct Leftover {
    source: Source,
    pub(super) count: Bounded,
    why: String,
}

/// Finds what was left of these sources because nothing of them can be extracted here: a program or a secret is missing.
pub(super) async fn find(insight: &Insight, sources: &[Source], config: &str) -> Result<Vec<Leftover>> {
    let mut left = Vec::new();
    for hold in insight.holds().await? {
        let source = hold.scope.source();
        let why = hold.why.clone().unwrap_or_default();
        let is_unusable = matches!(hold.cause, Cause::Breaker(Probing { trip: Trip::Unusable, .. }));
        if !is_unusable || !sources.contains(source) {
            continue;
        }
        // What is held of a source is counted once, whether all of it cannot be used or some customers of it.
        if let Some(known) = left.iter_mut().find(|known: &&mut Leftover| known.source == *source) {
            known.why = format!("{}; {why}", known.why);
            continue;
        }
        let standing = insight.status(Some(source), config).await?.sources;
        let count = standing.iter().fold(Bounded::default(), |all, source| all + source.pending.held);
        if !count.is_zero() {
            left.push(Leftover { source: source.clone(), count, why });
        }
    }
    Ok(left)
}

/// Says what was left and why, and what to type when it is put right.
pub(super) fn tell(left: &[Leftover]) {
    for Leftover { source, count, why } in left {
        let todo = "correct that and drain again; `redrive doctor` says what is still wrong";
        output::note(&one_line(&format!("left: {count} partitions of {source}, {why}; {todo}")));
    }
}
