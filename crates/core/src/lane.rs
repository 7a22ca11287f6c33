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
        /// Data that failed, or that somebody asked for again.
        Retry = "retry",
        /// History.
        Backfill = "backfill",
    }
);

/// How many of ten slots each lane has when all have work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    pub fresh: u8,
    pub retry: u8,
    pub backfill: u8,
}

impl Default for Shares {
    fn default() -> Self {
        Self { fresh: 6, retry: 3, backfill: 1 }
    }
}

/// How much of one claim each lane may take at first, and the order in which they take what is left over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    pub first: Vec<(Lane, u32)>,
    pub leftovers: Vec<Lane>,
}

impl Shares {
    fn of(self, lane: Lane) -> u8 {
        match lane {
            Lane::Fresh => self.fresh,
            Lane::Retry => self.retry,
            Lane::Backfill => self.backfill,
        }
    }

    /// The wheel: every lane spread as evenly as its share allows. A lane with no share is on no slot.
    fn wheel(self) -> Vec<Lane> {
        let total: u32 = Lane::ALL.iter().map(|&lane| u32::from(self.of(lane))).sum();
        let mut credit = [0i64; 3];
        (0..total)
            .map(|_| {
                for (credit, &lane) in credit.iter_mut().zip(Lane::ALL) {
                    *credit += i64::from(self.of(lane));
                }
                let most = (0..3).rev().max_by_key(|&i| credit[i]).unwrap_or(0);
                credit[most] -= i64::from(total);
                Lane::ALL[most]
            })
            .collect()
    }

    /// The quotas of a claim of `wanted`, with the wheel turned to `turn`. The caller adds `wanted` to `turn` afterwards.
    pub fn quotas(self, turn: u64, wanted: u32) -> Quotas {
        let wheel = self.wheel();
        if wheel.is_empty() {
            return Quotas { first: vec![], leftovers: Lane::ALL.to_vec() };
        }
        let slots = u32::try_from(wheel.len()).unwrap_or(u32::MAX);
        let start = usize::try_from(turn % u64::from(slots)).unwrap_or(0);
        let mut counts = [0u32; 3];
        let index = |lane: Lane| Lane::ALL.iter().position(|&l| l == lane).unwrap_or(0);
        for &lane in &wheel {
            counts[index(lane)] += wanted / slots;
        }
        let rest = usize::try_from(wanted % slots).unwrap_or(0);
        for step in 0..rest {
            counts[index(wheel[(start + step) % wheel.len()])] += 1;
        }
        let mut order: Vec<Lane> = Vec::new();
        for step in 0..wheel.len() {
            let lane = wheel[(start + step) % wheel.len()];
            if !order.contains(&lane) {
                order.push(lane);
            }
        }
        order.extend(Lane::ALL.iter().copied().filter(|&lane| !wheel.contains(&lane)));
        let first = order.iter().map(|&lane| (lane, counts[index(lane)])).filter(|&(_, n)| n > 0).collect();
        Quotas { first, leftovers: order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn six_three_one_over_ten_claims_of_one() {
        let mut taken = std::collections::BTreeMap::new();
        for turn in 0..10 {
            for (lane, n) in Shares::default().quotas(turn, 1).first {
                *taken.entry(lane).or_insert(0) += n;
            }
        }
        assert_eq!(taken.into_iter().collect::<Vec<_>>(), [(Lane::Fresh, 6), (Lane::Retry, 3), (Lane::Backfill, 1)]);
    }

    #[test]
    fn a_lane_without_a_share_still_gets_what_nobody_wants() {
        let quotas = Shares { fresh: 1, retry: 0, backfill: 0 }.quotas(0, 4);
        assert_eq!(quotas.first, [(Lane::Fresh, 4)]);
        assert_eq!(quotas.leftovers.len(), 3);
        assert_eq!(Shares { fresh: 0, retry: 0, backfill: 0 }.quotas(9, 3).leftovers.len(), 3);
    }

    proptest! {
        #[test]
        fn first_quotas_add_up_and_every_lane_is_a_leftover_once(
            turn in any::<u64>(), wanted in 0u32..5_000, fresh in 0u8.., retry in 0u8.., backfill in 0u8..
        ) {
            let shares = Shares { fresh, retry, backfill };
            let quotas = shares.quotas(turn, wanted);
            let sum: u32 = quotas.first.iter().map(|&(_, n)| n).sum();
            let any = u32::from(fresh) + u32::from(retry) + u32::from(backfill) > 0;
            prop_assert_eq!(sum, if any { wanted } else { 0 });
            let mut leftovers = quotas.leftovers.clone();
            leftovers.sort();
            prop_assert_eq!(leftovers, Lane::ALL.to_vec());
        }
    }
}
