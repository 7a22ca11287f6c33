//! Lanes: why a partition is wanted, and how claims are shared among the reasons.
//!
//! The shares are a wheel of ten slots. Each claim turns it on by as many slots as it asks for, so that shares hold over
//! many small claims as well as within one large one. What a lane does not use goes to the others, in the wheel's order.

use crate::word::words;

words!(
    /// Why a partition is wanted.
    Lane, "lane" {
        /// New data, wanted for the first time.
        Fresh = "fresh",
        /// Data that failed, or that an operator asked for again.
        Retry = "retry",
        /// History.
        Backfill = "backfill",
    }
);

/// The wheel: six slots fresh, three retry, one backfill, each lane spread as evenly as it can be.
const WHEEL: [Lane; 10] = {
    use Lane::{Backfill, Fresh, Retry};
    [Fresh, Retry, Fresh, Fresh, Retry, Fresh, Backfill, Fresh, Retry, Fresh]
};

/// How much of one claim each lane may take at first, and the order in which they take what is left over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    pub first: Vec<(Lane, u32)>,
    pub leftovers: Vec<Lane>,
}

impl Quotas {
    /// In which order the lanes take, and how much at the most: their shares first, then what the others have left over of `wanted`.
    /// Only lanes that have something are asked, and one that comes twice in a row is asked once.
    pub fn rounds(&self, wanted: u32, lanes_with_work: &[Lane]) -> Vec<(Lane, u32)> {
        let all = self.first.iter().copied().chain(self.leftovers.iter().map(|&lane| (lane, wanted)));
        let mut rounds: Vec<(Lane, u32)> = Vec::new();
        for (lane, most) in all.filter(|(lane, _)| lanes_with_work.contains(lane)) {
            match rounds.last_mut() {
                Some((last, sum)) if *last == lane => *sum = sum.saturating_add(most),
                _ => rounds.push((lane, most)),
            }
        }
        rounds
    }
}

/// Shares out a claim of `wanted`, with the wheel turned to `turn`. The caller adds `wanted` to `turn` afterwards.
pub fn quotas(turn: u64, wanted: u32) -> Quotas {
    let start = usize::try_from(turn % 10).unwrap_or(0);
    let (full_turns, rest) = (wanted / 10, usize::try_from(wanted % 10).unwrap_or(0));
    let turned = || WHEEL.iter().cycle().skip(start).take(WHEEL.len());
    let slots =
        |of: &mut dyn Iterator<Item = &Lane>, lane: Lane| of.fold(0, |sum, &slot| sum + u32::from(slot == lane));
    let mut leftovers: Vec<Lane> = Vec::new();
    for &lane in turned() {
        if !leftovers.contains(&lane) {
            leftovers.push(lane);
        }
    }
    let share = |lane| full_turns * slots(&mut turned(), lane) + slots(&mut turned().take(rest), lane);
    let first = leftovers.iter().map(|&lane| (lane, share(lane))).filter(|&(_, share)| share > 0).collect();
    Quotas { first, leftovers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn six_three_one_over_ten_claims_of_one() {
        let mut taken = std::collections::BTreeMap::new();
        for turn in 0..10 {
            for (lane, n) in quotas(turn, 1).first {
                *taken.entry(lane).or_insert(0) += n;
            }
        }
        assert_eq!(taken.into_iter().collect::<Vec<_>>(), [(Lane::Fresh, 6), (Lane::Retry, 3), (Lane::Backfill, 1)]);
    }

    #[test]
    fn lanes_without_work_are_passed_over_and_one_alone_is_asked_once_for_all() {
        let quotas = quotas(0, 10);
        let fresh_first = [(Lane::Fresh, 6), (Lane::Retry, 3), (Lane::Backfill, 1)];
        let leftovers = [(Lane::Fresh, 10), (Lane::Retry, 10), (Lane::Backfill, 10)];
        assert_eq!(quotas.rounds(10, Lane::ALL), [fresh_first, leftovers].concat());
        let two = [(Lane::Fresh, 6), (Lane::Backfill, 1), (Lane::Fresh, 10), (Lane::Backfill, 10)];
        assert_eq!(quotas.rounds(10, &[Lane::Fresh, Lane::Backfill]), two);
        assert_eq!(quotas.rounds(10, &[Lane::Retry]), [(Lane::Retry, 13)]);
        assert_eq!(quotas.rounds(10, &[]), []);
    }

    proptest! {
        #[test]
        fn first_quotas_add_up_and_every_lane_is_a_leftover_once(turn in any::<u64>(), wanted in 0u32..5_000) {
            let quotas = quotas(turn, wanted);
            prop_assert_eq!(quotas.first.iter().map(|&(_, n)| n).sum::<u32>(), wanted);
            let mut leftovers = quotas.leftovers.clone();
            leftovers.sort();
            prop_assert_eq!(leftovers, Lane::ALL.to_vec());
        }

        #[test]
        fn ten_in_a_row_are_six_three_and_one_however_they_are_asked_for(turn in any::<u64>(), some in 0u32..=10) {
            let mut taken = std::collections::BTreeMap::new();
            for (turn, wanted) in [(turn, some), (turn.wrapping_add(u64::from(some)), 10 - some)] {
                prop_assume!(turn.checked_add(10).is_some());
                for (lane, n) in quotas(turn, wanted).first {
                    *taken.entry(lane).or_insert(0) += n;
                }
            }
            let taken: Vec<_> = taken.into_iter().collect();
            prop_assert_eq!(taken, [(Lane::Fresh, 6), (Lane::Retry, 3), (Lane::Backfill, 1)]);
        }
    }
}
