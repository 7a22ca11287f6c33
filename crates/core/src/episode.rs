//! Episodes of failure groups: a group's episode lasts from its first failure until nothing of it is failed or being tried
//! again. People are told at its turns and not of each failure: ten thousand failures alike are one message, one more when
//! they have become ten times as many, and one when they are over.

use crate::fingerprint::GroupId;
use crate::time::Timestamp;

/// So many times what an episode began with is worth a message of its own, once.
const GROWTH: u64 = 10;

/// An episode that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    pub group: GroupId,
    pub opened_at: Timestamp,
    /// How many had failed when people were first told.
    pub opened_with: u64,
    /// When people were told of its growth.
    pub grown_at: Option<Timestamp>,
    /// When people were told that some of it have no attempts left.
    pub exhausted_at: Option<Timestamp>,
}

/// How a group stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStanding {
    /// How many are failed now.
    pub failed: u64,
    /// How many of them have no attempts left.
    pub exhausted: u64,
    /// Whether some that had failed are being tried again, and may fail again.
    pub is_retried: bool,
}

crate::word::words! {
    /// What happens in an episode that people are told of.
    Turn, "turn" {
        Opened = "opened",
        Grown = "grown",
        Exhausted = "exhausted",
        Resolved = "resolved",
    }
}

/// What people are to be told, in this order, and the episode as it is afterwards; none when it is over.
pub fn next(
    group: GroupId,
    episode: Option<Episode>,
    standing: GroupStanding,
    now: Timestamp,
) -> (Vec<Turn>, Option<Episode>) {
    match (episode, standing.failed) {
        (None, 0) => (vec![], None),
        (None, failed) => (vec![Turn::Opened], Some(opened(group, failed, standing.exhausted > 0, now))),
        // What is tried again has not got well yet: it would only open another episode.
        (Some(episode), 0) if standing.is_retried => (vec![], Some(episode)),
        (Some(_), 0) => (vec![Turn::Resolved], None),
        (Some(episode), failed) => went_on(episode, failed, standing.exhausted > 0, now),
    }
}

/// Begins an episode. The first message says already how many have no attempts left.
fn opened(group: GroupId, failed: u64, is_exhausted: bool, now: Timestamp) -> Episode {
    let exhausted_at = is_exhausted.then_some(now);
    Episode { group, opened_at: now, opened_with: failed, grown_at: None, exhausted_at }
}

fn went_on(mut episode: Episode, failed: u64, is_exhausted: bool, now: Timestamp) -> (Vec<Turn>, Option<Episode>) {
    let mut turns = Vec::new();
    if episode.grown_at.is_none() && failed >= episode.opened_with.max(1).saturating_mul(GROWTH) {
        episode.grown_at = Some(now);
        turns.push(Turn::Grown);
    }
    if episode.exhausted_at.is_none() && is_exhausted {
        episode.exhausted_at = Some(now);
        turns.push(Turn::Exhausted);
    }
    (turns, Some(episode))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group() -> GroupId {
        GroupId::from_number(7).unwrap_or_else(|| unreachable!("7 is a group"))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// What is told of a group that stands so, look by look.
    fn told(standings: impl IntoIterator<Item = GroupStanding>) -> Vec<Turn> {
        let mut episode = None;
        let mut told = Vec::new();
        for (second, standing) in (0..).zip(standings) {
            let (turns, after) = next(group(), episode, standing, at(second));
            told.extend(turns);
            episode = after;
        }
        told
    }

    fn failed(failed: u64) -> GroupStanding {
        GroupStanding { failed, exhausted: 0, is_retried: false }
    }

    #[test]
    fn ten_thousand_failures_are_three_messages_however_often_one_looks() {
        let each = (1..=10_000).chain((0..10_000).rev()).map(failed);
        assert_eq!(told(each), [Turn::Opened, Turn::Grown, Turn::Resolved]);
        assert_eq!(told([1000, 10_000, 0].map(failed)), [Turn::Opened, Turn::Grown, Turn::Resolved]);
        assert_eq!(told([10_000, 10_000, 0, 0].map(failed)), [Turn::Opened, Turn::Resolved]);
    }

    #[test]
    fn what_is_tried_again_is_not_over() {
        let retried = GroupStanding { failed: 0, exhausted: 0, is_retried: true };
        assert_eq!(told([failed(1), retried, failed(1), retried, failed(0)]), [Turn::Opened, Turn::Resolved]);
        assert_eq!(told([retried]), []);
    }

    #[test]
    fn exhaustion_is_told_once() {
        let exhausted = |exhausted| GroupStanding { failed: 5, exhausted, is_retried: false };
        assert_eq!(told([0, 1, 2, 0, 3].map(exhausted)), [Turn::Opened, Turn::Exhausted]);
        assert_eq!(told([1, 2].map(exhausted)), [Turn::Opened], "the first message says it");
    }

    proptest! {
        /// SV-7: one message when it opens and one when it is over; between them at most one of each other kind.
        #[test]
        fn every_episode_is_told_once(standings in prop::collection::vec((0u64..200, 0u64..3, any::<bool>()), 0..60)) {
            let standings = standings.into_iter().map(|(failed, exhausted, is_retried)| GroupStanding {
                failed, exhausted: exhausted.min(failed), is_retried,
            });
            let told = told(standings);
            for episode in told.split_inclusive(|turn| *turn == Turn::Resolved) {
                prop_assert_eq!(episode[0], Turn::Opened);
                for turn in Turn::ALL {
                    prop_assert!(episode.iter().filter(|one| *one == turn).count() <= 1, "{:?}", episode);
                }
            }
        }
    }
}
