//! Scouts: a source that nobody has heard of yet, or that has just said "slow down", is asked by a few attempts before
//! all the others follow. One refusal then costs a handful of calls and not as many as a worker can make at once.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::key::Source;
use tokio::time::Instant;

use super::attempt::End;

/// How many go ahead.
const SCOUTS: u32 = 4;
/// A refusal comes quickly; a source that has not refused by then is at work.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Scouts {
    sources: BTreeMap<Source, Scouted>,
}

#[derive(Debug, Default)]
struct Scouted {
    in_flight: u32,
    trust: Trust,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Nobody is on the way.
    #[default]
    None,
    /// The first scout set out then.
    Waiting(Instant),
    Full,
}

impl Scouts {
    /// How many attempts of each source may be started now; a source that is not named here has no such limit.
    pub(super) fn at_most(&self, sources: &[Source], now: Instant) -> BTreeMap<Source, u32> {
        let limit = |source: &Source| {
            let scouted = self.sources.get(source);
            match scouted.map_or(Trust::None, |scouted| scouted.trust) {
                Trust::Full => None,
                Trust::Waiting(since) if now >= since + PATIENCE => None,
                Trust::None | Trust::Waiting(_) => {
                    let in_flight = scouted.map_or(0, |scouted| scouted.in_flight);
                    Some((source.clone(), SCOUTS.saturating_sub(in_flight)))
                }
            }
        };
        sources.iter().filter_map(limit).collect()
    }

    pub(super) fn started(&mut self, source: &Source, now: Instant) {
        let scouted = self.sources.entry(source.clone()).or_default();
        scouted.in_flight += 1;
        if scouted.trust == Trust::None {
            scouted.trust = Trust::Waiting(now);
        }
    }

    pub(super) fn ended(&mut self, source: &Source, end: &End) {
        let Some(scouted) = self.sources.get_mut(source) else { return };
        scouted.in_flight = scouted.in_flight.saturating_sub(1);
        match end {
            End::Rejected { class: ErrorClass::RateLimited } => scouted.trust = Trust::None,
            End::Accepted { .. } | End::Rejected { class: ErrorClass::Final | ErrorClass::Retryable } => {
                scouted.trust = Trust::Full;
            }
            End::Refused(_) | End::Released | End::Lost => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_few_go_ahead_until_one_comes_back_or_none_was_sent_back_in_time() {
        let source: Source = "src".parse().unwrap();
        let sources = [source.clone()];
        let now = Instant::now();
        let mut scouts = Scouts::default();
        let limit = |scouts: &Scouts, now| scouts.at_most(&sources, now).get(&source).copied();
        assert_eq!(limit(&scouts, now), Some(4));
        (0..4).for_each(|_| scouts.started(&source, now));
        assert_eq!(limit(&scouts, now), Some(0));
        assert_eq!(limit(&scouts, now + PATIENCE), None, "it is slow, and at work");
        scouts.ended(&source, &End::Accepted { records: 1 });
        assert_eq!(limit(&scouts, now), None, "it is well");
        scouts.ended(&source, &End::Rejected { class: ErrorClass::RateLimited });
        assert_eq!(limit(&scouts, now + PATIENCE), Some(2), "two are still on their way");
        scouts.ended(&source, &End::Lost);
        scouts.ended(&source, &End::Released);
        assert_eq!(limit(&scouts, now), Some(4));
    }
}
