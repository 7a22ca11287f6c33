//! How a claim is shared among queues.

use crate::time::Timestamp;

/// Shares a claim among queues strictly by age: says of each queue how many of its runs are among the `limit` oldest of
/// all. Each queue lists when its runs were submitted, oldest first, and need not list more than `limit`.
pub fn by_age(queues: &[Vec<Timestamp>], limit: u32) -> Vec<u32> {
    let mut all: Vec<(Timestamp, usize)> =
        queues.iter().enumerate().flat_map(|(queue, runs)| runs.iter().map(move |&run| (run, queue))).collect();
    all.sort_unstable();
    let mut shares = vec![0; queues.len()];
    for &(_, queue) in all.iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        shares[queue] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_is_never_younger_than_what_is_left(
            mut queues in vec(vec((0i64..50).prop_map(Timestamp::from_micros), 0..20), 0..6), limit in 0u32..60
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
            mut queues in vec(vec((0i64..50).prop_map(Timestamp::from_micros), 0..20), 0..6), limit in 0u32..10
        ) {
            queues.iter_mut().for_each(|queue| queue.sort());
            let whole = by_age(&queues, limit);
            queues.iter_mut().for_each(|queue| queue.truncate(limit as usize));
            prop_assert_eq!(by_age(&queues, limit), whole);
        }
    }
}
