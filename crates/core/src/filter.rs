//! Which partitions a command means. Exact values only; slips are refused before anything is read.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use crate::any_of::AnyOf;
use crate::failure::ErrorClass;
use crate::fingerprint::{self, GroupId};
use crate::key::{CustomerId, KeyError, LogicalDate, PartitionKey, QueryName, Source};
use crate::partition::{PartitionState, Status};
use crate::word::words;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Filter {
    #[serde(skip_serializing_if = "AnyOf::is_all")]
    pub source: AnyOf<Source>,
    #[serde(skip_serializing_if = "AnyOf::is_all")]
    pub customer_id: AnyOf<CustomerId>,
    #[serde(skip_serializing_if = "AnyOf::is_all")]
    pub query_name: AnyOf<QueryName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<LogicalDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<LogicalDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<ErrorClass>,
    /// What is failed now with one cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
}

words!(
    /// A field of a filter that can be given wrongly. Callers have their own spelling for it, such as a flag.
    Field, "filter field" {
        Source = "source",
        CustomerId = "customer_id",
        QueryName = "query_name",
        Since = "since",
        Until = "until",
    }
);

/// Why a filter is not acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterError {
    Key(KeyError),
    Wildcard { field: Field, value: String },
    Inverted { since: LogicalDate, until: LogicalDate },
    TooEarly { field: Field, date: LogicalDate, earliest: LogicalDate },
    TooLate { field: Field, date: LogicalDate, latest: LogicalDate },
    Empty,
}

impl FilterError {
    /// Says what is wrong, with each field spelt as the caller's users know it.
    pub fn text(&self, spelt: impl Fn(Field) -> String) -> String {
        match self {
            Self::Key(error) => error.to_string(),
            Self::Wildcard { field, value } => {
                let field = spelt(*field);
                format!("{field} {value:?} looks like a wildcard; filters match exact values only, so name each value")
            }
            Self::Inverted { since, until } => {
                let (from, to) = (spelt(Field::Since), spelt(Field::Until));
                format!("the range is upside down: {from} {since} is after {to} {until}")
            }
            Self::TooEarly { field, date, earliest } => {
                let rule = format!("is before {earliest}, the earliest date allowed");
                format!("{} {date} {rule}; check it, or set safety.earliest_date", spelt(*field))
            }
            Self::TooLate { field, date, latest } => {
                format!("{} {date} is after {latest}; there is no data yet for days to come", spelt(*field))
            }
            Self::Empty => "the filter is empty and would mean every partition; name a source, customer, query, date, \
                            status or failure group"
                .to_owned(),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|field| field.to_string()))
    }
}

impl std::error::Error for FilterError {}

impl From<KeyError> for FilterError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// The dates a command may speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateBounds {
    pub earliest: LogicalDate,
    pub latest: LogicalDate,
}

/// Refuses a value that was meant as a pattern. `%` counts unless it starts a percent-encoded byte.
fn refuse_wildcard(field: Field, value: &str) -> Result<(), FilterError> {
    let bytes = value.as_bytes();
    let encoded = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    let pattern = bytes.iter().enumerate().any(|(at, &byte)| match byte {
        b'*' | b'?' => true,
        b'%' => !encoded(at),
        _ => false,
    });
    if pattern { Err(FilterError::Wildcard { field, value: value.to_owned() }) } else { Ok(()) }
}

impl Filter {
    /// Reads exact values, as users give them: none, one or several of each field.
    pub fn exact<'a>(
        source: impl IntoIterator<Item = &'a str>,
        customer_id: impl IntoIterator<Item = &'a str>,
        query_name: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, FilterError> {
        Ok(Self {
            source: values(Field::Source, source, Source::new)?,
            customer_id: values(Field::CustomerId, customer_id, CustomerId::new)?,
            query_name: values(Field::QueryName, query_name, QueryName::new)?,
            ..Self::default()
        })
    }

    /// The filter that means everything of one query of a customer.
    pub fn series(source: Source, customer_id: CustomerId, query_name: QueryName) -> Self {
        Self {
            source: AnyOf::one(source),
            customer_id: AnyOf::one(customer_id),
            query_name: AnyOf::one(query_name),
            ..Self::default()
        }
    }

    /// The filter that means one partition.
    pub fn key(key: &PartitionKey) -> Self {
        let series = Self::series(key.source.clone(), key.customer_id.clone(), key.query_name.clone());
        Self { since: Some(key.logical_date), until: Some(key.logical_date), ..series }
    }

    /// The one partition it means, where it names all four values.
    pub fn as_key(&self) -> Option<PartitionKey> {
        let date = self.since.filter(|since| self.until == Some(*since))?;
        Some(PartitionKey {
            source: self.source.only()?.clone(),
            customer_id: self.customer_id.only()?.clone(),
            query_name: self.query_name.only()?.clone(),
            logical_date: date,
        })
    }

    /// Takes a filter of several values apart, into filters that follow one another in key order and mean the same together. Each
    /// names one source; below one source one customer, and below one customer one query, as far as the filter names any.
    pub fn in_key_order(&self) -> Vec<Self> {
        let mut parts = vec![self.clone()];
        if self.source.is_all() {
            return parts;
        }
        parts = split(parts, |part| &part.source, |part, source| Self { source, ..part.clone() });
        if self.customer_id.is_all() {
            return parts;
        }
        parts = split(parts, |part| &part.customer_id, |part, customer_id| Self { customer_id, ..part.clone() });
        split(parts, |part| &part.query_name, |part, query_name| Self { query_name, ..part.clone() })
    }

    /// How everything that a part of [`Self::in_key_order`] means stands to a key: before it, around it, or after it.
    pub fn stands_to(&self, key: &PartitionKey) -> Ordering {
        let source = self.source.only().map_or(Ordering::Equal, |source| source.cmp(&key.source));
        if source.is_ne() || self.source.only().is_none() {
            return source;
        }
        let customer = self.customer_id.only().map_or(Ordering::Equal, |customer| customer.cmp(&key.customer_id));
        if customer.is_ne() || self.customer_id.only().is_none() {
            return customer;
        }
        self.query_name.only().map_or(Ordering::Equal, |query| query.cmp(&key.query_name))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses a range that cannot be meant.
    pub fn check_dates(&self, bounds: DateBounds) -> Result<(), FilterError> {
        for (field, date) in [(Field::Since, self.since), (Field::Until, self.until)] {
            let Some(date) = date else { continue };
            if date < bounds.earliest {
                return Err(FilterError::TooEarly { field, date, earliest: bounds.earliest });
            }
            if date > bounds.latest {
                return Err(FilterError::TooLate { field, date, latest: bounds.latest });
            }
        }
        match (self.since, self.until) {
            (Some(since), Some(until)) if since > until => Err(FilterError::Inverted { since, until }),
            _ => Ok(()),
        }
    }

    /// What a changing command asks of its filter.
    pub fn check_for_change(&self, bounds: DateBounds) -> Result<(), FilterError> {
        if self.is_empty() {
            return Err(FilterError::Empty);
        }
        self.check_dates(bounds)
    }

    /// Whether a partition is meant. The store's selection agrees with this; a test compares them.
    pub fn matches(&self, state: &PartitionState) -> bool {
        let key = &state.key;
        self.source.admits(&key.source)
            && self.customer_id.admits(&key.customer_id)
            && self.query_name.admits(&key.query_name)
            && self.since.is_none_or(|since| since <= key.logical_date)
            && self.until.is_none_or(|until| key.logical_date <= until)
            && self.status.is_none_or(|status| status == state.status)
            && self.error_class.is_none_or(|class| Some(class) == state.error_class)
            && self.group.is_none_or(|group| Some(group) == failed_group(state))
    }
}

/// Checks each value that users give for a field.
fn values<'a, T: Ord>(
    field: Field,
    given: impl IntoIterator<Item = &'a str>,
    make: impl Fn(&'a str) -> Result<T, KeyError>,
) -> Result<AnyOf<T>, FilterError> {
    let one = |value| {
        refuse_wildcard(field, value)?;
        Ok(make(value)?)
    };
    given.into_iter().map(one).collect()
}

/// One part for each value that a field of a part names; a field that names none stays.
fn split<T: Ord + Clone>(
    parts: Vec<Filter>,
    field: impl Fn(&Filter) -> &AnyOf<T>,
    with: impl Fn(&Filter, AnyOf<T>) -> Filter,
) -> Vec<Filter> {
    let of_part = |part: Filter| match field(&part).is_all() {
        true => vec![part],
        false => field(&part).iter().map(|value| with(&part, AnyOf::one(value.clone()))).collect(),
    };
    parts.into_iter().flat_map(of_part).collect()
}

/// The failure group of a partition that is failed now.
fn failed_group(state: &PartitionState) -> Option<GroupId> {
    match state.status {
        Status::Failed => fingerprint::of_partition(state).map(|found| found.group),
        Status::Pending | Status::Success => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> LogicalDate {
        text.parse().unwrap()
    }

    fn bounds() -> DateBounds {
        DateBounds { earliest: date("2015-01-01"), latest: date("2026-11-15") }
    }

    #[test]
    fn wildcards_are_refused_and_percent_encoding_is_not_one() {
        for pattern in ["*", "acme*", "a?c", "%", "acme%", "%%"] {
            assert!(matches!(Filter::exact(None, Some(pattern), None), Err(FilterError::Wildcard { .. })), "{pattern}");
        }
        for exact in ["%2e", "campaign_daily", "111-111-1111", "a.b", "[x]"] {
            assert!(Filter::exact(Some(exact), None, None).is_ok(), "{exact}");
        }
    }

    #[test]
    fn a_slip_in_the_dates_is_refused() {
        let range = |since: &str, until: &str| Filter {
            since: Some(date(since)),
            until: Some(date(until)),
            ..Filter::default()
        };
        assert!(range("2026-01-01", "2026-01-31").check_for_change(bounds()).is_ok());
        assert!(matches!(
            range("1900-01-01", "2026-01-01").check_for_change(bounds()),
            Err(FilterError::TooEarly { field: Field::Since, .. })
        ));
        assert!(matches!(
            range("2026-02-01", "2026-01-01").check_for_change(bounds()),
            Err(FilterError::Inverted { .. })
        ));
        assert!(matches!(
            range("2026-02-01", "2027-01-01").check_for_change(bounds()),
            Err(FilterError::TooLate { field: Field::Until, .. })
        ));
        assert_eq!(Filter::default().check_for_change(bounds()), Err(FilterError::Empty));
        let wrong = range("2026-02-01", "2026-01-01").check_for_change(bounds()).unwrap_err();
        assert_eq!(wrong.to_string(), "the range is upside down: since 2026-02-01 is after until 2026-01-01");
        assert!(wrong.text(|field| format!("--{field}")).contains("--since 2026-02-01 is after --until"));
    }

    #[test]
    fn several_values_are_a_list_and_one_is_itself() {
        let json = |filter: &Filter| serde_json::to_value(filter).unwrap();
        let filter = Filter::exact(["b", "a", "b"], ["1"], None).unwrap();
        assert_eq!(json(&filter), serde_json::json!({"source": ["a", "b"], "customer_id": "1"}));
        assert_eq!(json(&Filter::default()), serde_json::json!({}));
        let refused = Filter::exact(["a", "b*"], None, None).unwrap_err();
        assert!(matches!(refused, FilterError::Wildcard { field: Field::Source, .. }));
    }

    /// Every key of a small world, by a filter taken apart and by the filter as it is.
    #[test]
    fn parts_follow_one_another_in_key_order_and_mean_what_the_filter_means() {
        let names = ["a", "b", "c"];
        let choices: [&[&str]; 4] = [&[], &["b"], &["a", "c"], &["c", "b", "a"]];
        let mut keys = Vec::new();
        for source in names {
            for customer in names {
                keys.extend(names.map(|query| PartitionKey::new(source, customer, query, "2026-01-01").unwrap()));
            }
        }
        for source in choices {
            for customer in choices {
                for query in choices {
                    let of = |values: &'static [&'static str]| values.iter().copied();
                    let filter = Filter::exact(of(source), of(customer), of(query)).unwrap();
                    let meant = |filter: &Filter, key: &PartitionKey| {
                        let new = crate::partition::Partition::new(
                            key.clone(),
                            crate::lane::Lane::Fresh,
                            crate::time::Timestamp::MIN,
                        );
                        filter.matches(&new.state)
                    };
                    let parts = filter.in_key_order();
                    let by_parts: Vec<_> =
                        parts.iter().flat_map(|part| keys.iter().filter(|key| meant(part, key))).collect();
                    let whole: Vec<_> = keys.iter().filter(|key| meant(&filter, key)).collect();
                    assert_eq!(by_parts, whole, "{filter:?}");
                    for part in &parts {
                        for after in &keys {
                            let left = keys.iter().any(|key| key > after && meant(part, key));
                            assert!(part.stands_to(after).is_ge() || !left, "{part:?} has more after {after}");
                            let passed = keys.iter().any(|key| key <= after && meant(part, key));
                            assert!(part.stands_to(after).is_le() || !passed, "{part:?} begins before {after}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_filter_of_four_exact_values_is_a_key() {
        let several = Filter::exact(["ads", "crm"], ["1"], ["q"]).unwrap();
        let day = Some(date("2026-01-01"));
        assert_eq!(Filter { since: day, until: day, ..several }.as_key(), None);
        let key = PartitionKey::new("ads", "1", "q", "2026-01-01").unwrap();
        assert_eq!(Filter::key(&key).as_key(), Some(key.clone()));
        assert_eq!(Filter { until: None, ..Filter::key(&key) }.as_key(), None);
    }
}
