//! What a change is about, in a few words: of whom, which days, with which errors. An operator agrees to this.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, Source};
use redrive_core::partition::Partition;

/// How many different messages are told apart; the rest count together.
const MESSAGES: usize = 64;

/// The partitions of a change, taken together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    sources: BTreeMap<Source, BTreeSet<CustomerId>>,
    days: Option<(LogicalDate, LogicalDate)>,
    errors: BTreeMap<String, u64>,
    other_errors: u64,
}

impl Extent {
    pub(super) fn add(&mut self, partition: &Partition) {
        self.add_key(&partition.state.key);
        let Some(message) = &partition.state.error_message else { return };
        if let Some(count) = self.errors.get_mut(message) {
            *count += 1;
        } else if self.errors.len() < MESSAGES {
            self.errors.insert(message.clone(), 1);
        } else {
            self.other_errors += 1;
        }
    }

    fn add_key(&mut self, key: &PartitionKey) {
        let day = key.logical_date;
        self.days = Some(self.days.map_or((day, day), |(first, last)| (first.min(day), last.max(day))));
        match self.sources.get_mut(&key.source) {
            Some(customers) if customers.contains(&key.customer_id) => {}
            Some(customers) => drop(customers.insert(key.customer_id.clone())),
            None => drop(self.sources.insert(key.source.clone(), BTreeSet::from([key.customer_id.clone()]))),
        }
    }

    /// Lines for a person: one for each source, and one for the errors. The most frequent errors come first.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let Some((first, last)) = self.days else { return vec![] };
        let days = if first == last { first.to_string() } else { format!("{first} to {last}") };
        let mut lines: Vec<String> =
            self.sources.iter().take(most).map(|(source, customers)| whose(source, customers)).collect();
        if let Some(more) = self.sources.len().checked_sub(most).filter(|more| *more > 0) {
            lines.push(format!("and {more} more sources"));
        }
        lines.push(days);
        let mut errors: Vec<(&String, u64)> = self.errors.iter().map(|(message, count)| (message, *count)).collect();
        errors.sort_by_key(|(message, count)| (std::cmp::Reverse(*count), *message));
        let rest = errors.iter().skip(most).map(|(_, count)| count).sum::<u64>() + self.other_errors;
        lines.extend(errors.iter().take(most).map(|(message, count)| format!("{count} × {message}")));
        if rest > 0 {
            lines.push(format!("{rest} × other errors"));
        }
        lines
    }
}

fn whose(source: &Source, customers: &BTreeSet<CustomerId>) -> String {
    match (customers.first(), customers.len()) {
        (Some(only), 1) => format!("{source}, customer {only}"),
        (_, many) => format!("{source}, {many} customers"),
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::lane::Lane;
    use redrive_core::time::Timestamp;

    use super::*;

    fn partition(source: &str, customer: &str, day: &str, message: &str) -> Partition {
        let key = PartitionKey::new(source, customer, "daily", day).unwrap();
        let mut partition = Partition::new(key, Lane::Retry, Timestamp::from_micros(0));
        partition.state.error_message = Some(message.to_owned());
        partition
    }

    #[test]
    fn it_says_of_whom_which_days_and_which_errors() {
        let mut extent = Extent::default();
        for (source, customer, day, message) in [
            ("ads", "1", "2026-01-03", "reset"),
            ("ads", "2", "2026-01-01", "gone"),
            ("ads", "2", "2026-01-02", "gone"),
            ("crm", "9", "2026-01-05", "late"),
        ] {
            extent.add(&partition(source, customer, day, message));
        }
        assert_eq!(
            extent.lines(2),
            [
                "ads, 2 customers",
                "crm, customer 9",
                "2026-01-01 to 2026-01-05",
                "2 × gone",
                "1 × late",
                "1 × other errors"
            ]
        );
        assert_eq!(extent.lines(1)[..2], ["ads, 2 customers", "and 1 more sources"]);
        assert!(Extent::default().lines(3).is_empty());
    }

    #[test]
    fn a_million_different_messages_take_little_room() {
        let mut extent = Extent::default();
        for nth in 0..1000 {
            extent.add(&partition("ads", "1", "2026-01-01", &format!("request {nth}")));
        }
        assert_eq!((extent.errors.len(), extent.other_errors), (MESSAGES, 1000 - 64));
    }
}
