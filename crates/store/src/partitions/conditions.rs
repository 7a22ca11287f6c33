//! The conditions of a filter, as SQL.

use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, PartitionKey, QueryName, Source};
use redrive_core::partition::Status;

use super::Period;
use crate::db::Param;

/// The conditions of a filter on `series s` and `partitions p`. Only those that are given are written, so that each shape has
/// its own plan.
#[derive(Default)]
pub(super) struct Conditions<'a> {
    pub(super) text: String,
    pub(super) params: Vec<Param<'a>>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(filter: &'a Filter) -> Self {
        let mut all = Self::of_series(filter);
        if let Some(since) = filter.since {
            all.value("p.period >=", Period::of(since).into());
        }
        if let Some(until) = filter.until {
            all.value("p.period <=", Period::of(until).into());
        }
        if let Some(status) = filter.status {
            all.plain(of_status(status));
        }
        if let Some(class) = filter.error_class {
            all.value("p.error_class =", class.as_str().into());
        }
        if let Some(group) = filter.group {
            all.plain(IN_A_GROUP);
            all.value("p.error_group =", group.number().into());
        }
        all
    }

    /// What a filter says of series alone.
    pub(super) fn of_series(filter: &'a Filter) -> Self {
        let mut all = Self::default();
        all.any_of("s.source", filter.source.iter().map(Source::as_str));
        all.any_of("s.customer_id", filter.customer_id.iter().map(CustomerId::as_str));
        all.any_of("s.query_name", filter.query_name.iter().map(QueryName::as_str));
        all
    }

    /// One of these values; any where there is none.
    fn any_of(&mut self, column: &str, values: impl ExactSizeIterator<Item = &'a str>) {
        let (count, mut values) = (values.len(), values.map(Param::from));
        match (count, values.next()) {
            (_, None) => {}
            (1, Some(value)) => self.value(&format!("{column} ="), value),
            (_, Some(first)) => {
                let marks: Vec<String> = std::iter::once(first).chain(values).map(|value| self.param(value)).collect();
                self.text += &format!(" AND {column} IN ({})", marks.join(", "));
            }
        }
    }

    pub(super) fn plain(&mut self, text: &str) {
        self.text += &format!(" AND {text}");
    }

    pub(super) fn value(&mut self, text: &str, value: Param<'a>) {
        let mark = self.param(value);
        self.text += &format!(" AND {text} {mark}");
    }

    /// Adds a parameter; gives the mark that stands for it.
    pub(super) fn param(&mut self, value: Param<'a>) -> String {
        self.params.push(value);
        format!("?{}", self.params.len())
    }

    /// What comes after a key in its series.
    pub(super) fn within(&mut self, key: &'a PartitionKey) {
        self.value("s.source =", key.source.as_str().into());
        self.value("s.customer_id =", key.customer_id.as_str().into());
        self.value("s.query_name =", key.query_name.as_str().into());
        self.value("p.period >", Period::of(key.logical_date).into());
    }

    /// The series after a key's. Columns that the filter fixes from the left are left out of the comparison, so that the
    /// index is entered at the key and not at the beginning of what is fixed.
    pub(super) fn beyond(&mut self, filter: &Filter, key: &'a PartitionKey) {
        let columns = [
            ("s.source", key.source.as_str(), filter.source.only().is_some()),
            ("s.customer_id", key.customer_id.as_str(), filter.customer_id.only().is_some()),
            ("s.query_name", key.query_name.as_str(), filter.query_name.only().is_some()),
        ];
        let open: Vec<_> = columns.into_iter().skip_while(|(.., fixed)| *fixed).collect();
        let names: Vec<_> = open.iter().map(|(name, ..)| *name).collect();
        let marks: Vec<_> = open.iter().map(|&(_, value, _)| self.param(value.into())).collect();
        self.text += &format!(" AND ({}) > ({})", names.join(", "), marks.join(", "));
    }
}

/// The condition on a status; written out, so that the planner sees that the partial index of open partitions serves.
pub(super) fn of_status(status: Status) -> &'static str {
    match status {
        Status::Pending => "p.status = 'pending' AND p.status <> 'success'",
        Status::Failed => "p.status = 'failed' AND p.status <> 'success'",
        Status::Success => "p.status = 'success'",
    }
}

/// What is failed now and has a group, in the words of the partial index.
pub(super) const IN_A_GROUP: &str = "p.status = 'failed' AND p.error_group IS NOT NULL";

/// Whether a filter leaves only one series.
pub(super) fn names_one_series(filter: &Filter) -> bool {
    filter.source.only().is_some() && filter.customer_id.only().is_some() && filter.query_name.only().is_some()
}
