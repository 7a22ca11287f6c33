//! How a claim is shared: how much each source may still take, customers in turn, queues of runs by age, an even share for each.

use std::collections::BTreeMap;

use crate::hold::HoldScope;
use crate::key::{CustomerId, Source};

/// A scope of which no more than so many may be claimed now. A hold lets none through, or one canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub scope: HoldScope,
    pub left: u32,
}

/// What may still be claimed: of which sources, which scopes are held, and how much each limited source has left.
#[derive(Debug, Clone)]
pub struct Capacity<'a> {
    sources: Option<&'a [Source]>,
    gates: BTreeMap<Source, SourceGates>,
    held_queries: Vec<HoldScope>,
    left: BTreeMap<Source, u32>,
}

/// The gates on a source and on customers of it. Each scope keeps the narrowest of its gates.
#[derive(Debug, Clone, Default)]
struct SourceGates {
    whole: Option<u32>,
    customers: BTreeMap<CustomerId, u32>,
}

impl<'a> Capacity<'a> {
    /// None for `sources` means all of them; a source that is not in `left` has no limit.
    pub fn new(sources: Option<&'a [Source]>, gates: Vec<Gate>, left: BTreeMap<Source, u32>) -> Self {
        let mut capacity = Self { sources, gates: BTreeMap::new(), held_queries: vec![], left };
        for Gate { scope, left } in gates {
            let of_source = capacity.gates.entry(scope.source().clone()).or_default();
            match &scope {
                HoldScope::Source(_) => of_source.whole = Some(of_source.whole.map_or(left, |other| other.min(left))),
                HoldScope::Customer(_, customer) => {
                    of_source
                        .customers
                        .entry(customer.clone())
                        .and_modify(|other| *other = left.min(*other))
                        .or_insert(left);
                }
                HoldScope::Query(..) if left == 0 => capacity.held_queries.push(scope),
                HoldScope::Query(..) => {}
            }
        }
        capacity
    }

    /// Whether any customer of this source may be served.
    pub fn admits_source(&self, source: &Source) -> bool {
        self.sources.is_none_or(|sources| sources.contains(source))
            && self.left.get(source).is_none_or(|&left| left > 0)
            && self.gates.get(source).is_none_or(|gates| gates.whole != Some(0))
    }

    /// Whether any query of this customer may be served, but those that are held themselves.
    pub fn admits(&self, source: &Source, customer: &CustomerId) -> bool {
        let is_closed = |gates: &SourceGates| gates.customers.get(customer) == Some(&0);
        self.admits_source(source) && !self.gates.get(source).is_some_and(is_closed)
    }

    /// The queries that are held themselves.
    pub fn held_queries(&self) -> &[HoldScope] {
        &self.held_queries
    }

    fn take(&mut self, source: &Source, customer: &CustomerId) {
        if let Some(left) = self.left.get_mut(source) {
            *left = left.saturating_sub(1);
        }
        if let Some(gates) = self.gates.get_mut(source) {
            for left in gates.whole.iter_mut().chain(gates.customers.get_mut(customer)) {
                *left = left.saturating_sub(1);
            }
        }
    }
}

/// What one customer has waiting, first things first.
#[derive(Debug)]
pub struct CustomerQueue<T> {
    pub source: Source,
    pub customer_id: CustomerId,
    pub waiting: std::vec::IntoIter<T>,
}

/// Takes from the customers in rounds, one from each, until `wanted` are taken or no customer may give more. Each thing comes
/// with the place of the customer that it was taken from.
pub fn take_round_robin<T>(
    queues: &mut [CustomerQueue<T>],
    wanted: usize,
    capacity: &mut Capacity<'_>,
) -> Vec<(usize, T)> {
    let mut taken = Vec::new();
    loop {
        let before = taken.len();
        for (nth, queue) in queues.iter_mut().enumerate() {
            if taken.len() < wanted
                && capacity.admits(&queue.source, &queue.customer_id)
                && let Some(next) = queue.waiting.next()
            {
                capacity.take(&queue.source, &queue.customer_id);
                taken.push((nth, next));
            }
        }
        if taken.len() == before {
            return taken;
        }
    }
}

/// Shares a claim among queues strictly by age: says of each queue how many of its runs are among the `limit` oldest of
/// all. Each queue lists its runs, oldest first, and need not list more than `limit`.
pub fn by_age<T: Ord + Copy>(queues: &[Vec<T>], limit: u32) -> Vec<u32> {
    let mut all: Vec<(T, usize)> =
        queues.iter().enumerate().flat_map(|(queue, runs)| runs.iter().map(move |&run| (run, queue))).collect();
    all.sort_unstable();
    let mut shares = vec![0; queues.len()];
    for &(_, queue) in all.iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        shares[queue] += 1;
    }
    shares
}

/// How much of what is free one of several takers is offered first: what it lacks of an even share of all there is. What is free then is
/// offered once more, to one after the other.
pub fn even_share(all: u32, takers: usize, has: u32, free: u32) -> u32 {
    let share = all.div_ceil(u32::try_from(takers).unwrap_or(u32::MAX).max(1));
    share.saturating_sub(has).min(free)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Timestamp;

    fn queue(source: &str, customer: &str, waiting: Vec<u32>) -> CustomerQueue<u32> {
        let (source, customer_id) = (source.parse().unwrap(), customer.parse().unwrap());
        CustomerQueue { source, customer_id, waiting: waiting.into_iter() }
    }

    #[test]
    fn a_taker_is_first_offered_what_it_lacks_of_an_even_share() {
        assert_eq!(even_share(8, 1, 3, 5), 5, "alone, it has all");
        assert_eq!(even_share(8, 2, 0, 8), 4);
        assert_eq!(even_share(8, 2, 6, 2), 0, "it has more than its share");
        assert_eq!(even_share(8, 2, 0, 1), 1, "no more than there is");
        assert_eq!(even_share(1, 3, 0, 1), 1, "a single one goes round");
    }

    fn unlimited() -> Capacity<'static> {
        Capacity::new(None, vec![], BTreeMap::new())
    }

    #[test]
    fn each_customer_gives_one_before_any_gives_a_second() {
        let mut queues = [queue("ads", "a", vec![1, 2, 3]), queue("ads", "b", vec![4]), queue("crm", "c", vec![5, 6])];
        let taken = take_round_robin(&mut queues, 5, &mut unlimited());
        assert_eq!(taken, [(0, 1), (1, 4), (2, 5), (0, 2), (2, 6)]);
    }

    #[test]
    fn a_source_gives_no_more_than_it_has_left() {
        let mut queues = [queue("ads", "a", vec![1, 2]), queue("ads", "b", vec![3]), queue("crm", "c", vec![4, 5])];
        let mut capacity = Capacity::new(None, vec![], BTreeMap::from([("ads".parse().unwrap(), 1)]));
        assert_eq!(take_round_robin(&mut queues, 9, &mut capacity), [(0, 1), (2, 4), (2, 5)]);
        assert!(!capacity.admits_source(&"ads".parse().unwrap()));
    }

    fn gate(source: &str, customer: Option<&str>, left: u32) -> Gate {
        let customer = customer.map(|customer| customer.parse().unwrap());
        Gate { scope: HoldScope::new(source.parse().unwrap(), customer), left }
    }

    fn through(gates: Vec<Gate>) -> Vec<u32> {
        let mut all = [queue("ads", "a", vec![1, 4]), queue("ads", "b", vec![2]), queue("crm", "c", vec![3])];
        let mut capacity = Capacity::new(None, gates, BTreeMap::new());
        take_round_robin(&mut all, 9, &mut capacity).into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn who_is_held_or_not_asked_for_gives_nothing() {
        assert_eq!(through(vec![gate("ads", Some("a"), 0)]), [2, 3]);
        assert_eq!(through(vec![gate("ads", None, 0)]), [3]);
        let asked = ["ads".parse().unwrap()];
        let mut capacity = Capacity::new(Some(&asked), vec![], BTreeMap::new());
        let mut all = [queue("ads", "a", vec![1]), queue("crm", "c", vec![3])];
        assert_eq!(take_round_robin(&mut all, 9, &mut capacity), [(0, 1)]);
    }

    #[test]
    fn a_gate_that_lets_one_through_closes_behind_it() {
        assert_eq!(through(vec![gate("ads", None, 1)]), [1, 3]);
        assert_eq!(through(vec![gate("ads", Some("a"), 1)]), [1, 2, 3]);
        assert_eq!(
            through(vec![gate("ads", None, 1), gate("ads", Some("a"), 0)]),
            [2, 3],
            "the source's canary is of b"
        );
        assert_eq!(through(vec![gate("ads", None, 1), gate("ads", Some("a"), 1)]), [1, 3], "a canary of both");
    }

    proptest! {
        /// No customer gets two more than another who had as much to give; and as much is taken as there is.
        #[test]
        fn shares_differ_by_one_at_most(lengths in proptest::collection::vec(0usize..20, 1..8), wanted in 0usize..60) {
            let mut queues: Vec<_> = lengths
                .iter()
                .enumerate()
                .map(|(nth, &length)| queue("ads", &format!("c{nth}"), vec![0; length]))
                .collect();
            let taken = take_round_robin(&mut queues, wanted, &mut unlimited());
            prop_assert_eq!(taken.len(), wanted.min(lengths.iter().sum()));
            let mut counts = vec![0usize; lengths.len()];
            taken.iter().for_each(|(nth, _)| counts[*nth] += 1);
            let most = counts.iter().copied().max().unwrap_or(0);
            for (count, length) in counts.iter().zip(&lengths) {
                prop_assert!(count == length || *count + 1 >= most, "{:?} of {:?}", counts, lengths);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_never_younger_than_what_is_left(
            mut queues in prop::collection::vec(prop::collection::vec((0i64..50).prop_map(Timestamp::from_micros), 0..20), 0..6), limit in 0u32..60
        ) {
            queues.iter_mut().for_each(|queue| queue.sort());
            let shares = by_age(&queues, limit);
            prop_assert_eq!(shares.len(), queues.len());
            let all: usize = queues.iter().map(Vec::len).sum();
            prop_assert_eq!(shares.iter().sum::<u32>() as usize, all.min(limit as usize));
            let (mut taken, mut left) = (Vec::<Timestamp>::new(), Vec::<Timestamp>::new());
            for (queue, share) in queues.iter().zip(shares) {
                let (first, rest) = queue.split_at(share as usize);
                taken.extend(first.last());
                left.extend(rest.first());
            }
            if let (Some(youngest), Some(oldest)) = (taken.iter().max(), left.iter().min()) {
                prop_assert!(youngest <= oldest);
            }
        }

        #[test]
        fn a_queue_that_lists_more_than_the_limit_changes_nothing(
            mut queues in prop::collection::vec(prop::collection::vec((0i64..50).prop_map(Timestamp::from_micros), 0..20), 0..6), limit in 0u32..10
        ) {
            queues.iter_mut().for_each(|queue| queue.sort());
            let whole = by_age(&queues, limit);
            queues.iter_mut().for_each(|queue| queue.truncate(limit as usize));
            prop_assert_eq!(by_age(&queues, limit), whole);
        }
    }
}
