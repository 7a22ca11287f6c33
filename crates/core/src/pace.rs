//! Slow start: how many attempts of a source may be under way while it is unknown whether the source would refuse them.
//!
//! A source that has not answered yet, or that has just said "slow down", is asked by a few attempts before all the
//! others follow. One refusal then costs a handful of calls, and not as many as a worker can make at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::key::Source;
use crate::time::Timestamp;

/// How many attempts go ahead.
const AHEAD: u32 = 4;
/// A refusal comes quickly; a source that has not refused by then is at work.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pace of every source that one worker has started attempts of.
#[derive(Debug, Default)]
pub struct SlowStart {
    sources: BTreeMap<Source, SourcePace>,
}

#[derive(Debug, Default)]
struct SourcePace {
    in_flight: u32,
    confidence: Confidence,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Confidence {
    /// No attempt is under way to find out.
    #[default]
    None,
    /// The first attempt was started then, and no answer has come yet.
    Waiting(Timestamp),
    Full,
}

/// What an attempt's end says about its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The source answered well.
    Answered,
    /// The attempt failed. While nothing else is known of the source, the next may fail like it.
    Failed,
    /// The source said "slow down".
    SlowDown,
    /// The attempt ended without an answer of the source.
    Nothing,
}

impl SlowStart {
    /// Gives how many attempts of each source may be started now. A source that is not named has no such limit.
    pub fn at_most(&self, sources: &[Source], now: Timestamp) -> BTreeMap<Source, u32> {
        let limited = sources.iter().filter(|source| self.waits_until(source, now).is_some());
        limited.map(|source| (source.clone(), AHEAD.saturating_sub(self.pace(source).0))).collect()
    }

    /// Gives the first moment at which the limit of one of these sources ends by itself, if any will.
    pub fn next_change(&self, sources: &[Source], now: Timestamp) -> Option<Timestamp> {
        sources.iter().filter_map(|source| self.waits_until(source, now).flatten()).min()
    }

    /// Counts an attempt that starts now.
    pub fn started(&mut self, source: &Source, now: Timestamp) {
        let pace = self.sources.entry(source.clone()).or_default();
        pace.in_flight += 1;
        if pace.confidence == Confidence::None {
            pace.confidence = Confidence::Waiting(now);
        }
    }

    /// Takes an attempt's end into account.
    pub fn ended(&mut self, source: &Source, answer: Answer) {
        let Some(pace) = self.sources.get_mut(source) else { return };
        pace.in_flight = pace.in_flight.saturating_sub(1);
        match answer {
            Answer::SlowDown => pace.confidence = Confidence::None,
            Answer::Answered => pace.confidence = Confidence::Full,
            Answer::Failed | Answer::Nothing => {}
        }
    }

    /// Whether a source is limited, and if so, until when at the latest: no moment while nothing is under way.
    fn waits_until(&self, source: &Source, now: Timestamp) -> Option<Option<Timestamp>> {
        match self.pace(source).1 {
            Confidence::Full => None,
            Confidence::None => Some(None),
            Confidence::Waiting(since) => {
                let until = since.saturating_add(PATIENCE);
                (now < until).then_some(Some(until))
            }
        }
    }

    fn pace(&self, source: &Source) -> (u32, Confidence) {
        self.sources.get(source).map_or((0, Confidence::None), |pace| (pace.in_flight, pace.confidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_go_ahead_until_one_comes_back_or_none_was_sent_back_in_time() {
        let source: Source = "src".parse().unwrap();
        let sources = [source.clone()];
        let now = Timestamp::from_micros(0);
        let later = now.saturating_add(PATIENCE);
        let mut pace = SlowStart::default();
        let limit = |pace: &SlowStart, now| pace.at_most(&sources, now).get(&source).copied();
        assert_eq!((limit(&pace, now), pace.next_change(&sources, now)), (Some(4), None));
        (0..4).for_each(|_| pace.started(&source, now));
        assert_eq!((limit(&pace, now), pace.next_change(&sources, now)), (Some(0), Some(later)));
        assert_eq!((limit(&pace, later), pace.next_change(&sources, later)), (None, None), "it is slow, and at work");
        pace.ended(&source, Answer::Failed);
        assert_eq!(limit(&pace, now), Some(1), "one failed, and another may go in its place");
        pace.started(&source, now);
        pace.ended(&source, Answer::Answered);
        assert_eq!(limit(&pace, now), None, "it is well");
        pace.ended(&source, Answer::SlowDown);
        assert_eq!(limit(&pace, later), Some(2), "two are still on their way");
        pace.ended(&source, Answer::Nothing);
        pace.ended(&source, Answer::Nothing);
        assert_eq!(limit(&pace, now), Some(4));
    }
}
