//! The expected set: every customer × query × day of a source's calendar, never held as a whole.

use redrive_core::calendar::Calendar;
use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_store::QuerySpan;

use crate::error::Result;
use crate::insight::Insight;

/// The days that are missing of one query of one customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingDays {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub days: Vec<LogicalDate>,
    /// The latest day that is ready.
    pub latest: LogicalDate,
}

impl MissingDays {
    pub fn keys(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        self.days.iter().map(|day| PartitionKey {
            source: self.source.clone(),
            customer_id: self.customer_id.clone(),
            query_name: self.query_name.clone(),
            logical_date: *day,
        })
    }
}

/// The spans of the expected set that a filter means, in key order.
pub fn spans(insight: &Insight, filter: &Filter) -> Vec<(QuerySpan, LogicalDate)> {
    let now = insight.now();
    let mut all = Vec::new();
    for (source, rules) in insight.sources().known() {
        if !filter.source.admits(source) {
            continue;
        }
        let Some((calendar, latest)) = ready(rules.calendar.as_ref(), now) else { continue };
        let since = filter.since.map_or(calendar.start, |since| since.max(calendar.start));
        let until = filter.until.map_or(latest, |until| until.min(latest));
        if since > until {
            continue;
        }
        for customer in rules.customers.iter().filter(|id| filter.customer_id.admits(id)) {
            for query in rules.queries.iter().filter(|id| filter.query_name.admits(id)) {
                let span = QuerySpan {
                    source: source.clone(),
                    customer_id: customer.clone(),
                    query_name: query.clone(),
                    since,
                    until,
                };
                all.push((span, latest));
            }
        }
    }
    all.sort_by(|(a, _), (b, _)| {
        (&a.source, &a.customer_id, &a.query_name).cmp(&(&b.source, &b.customer_id, &b.query_name))
    });
    all
}

fn ready(calendar: Option<&Calendar>, now: redrive_core::time::Timestamp) -> Option<(&Calendar, LogicalDate)> {
    let calendar = calendar?;
    Some((calendar, calendar.latest_ready(now)?))
}

/// The days that are missing in one span, if there are any.
pub async fn missing_days(insight: &Insight, span: QuerySpan, latest: LogicalDate) -> Result<Option<MissingDays>> {
    let (source, customer_id, query_name) = (span.source.clone(), span.customer_id.clone(), span.query_name.clone());
    let days = insight.view().missing(span).await?;
    Ok((!days.is_empty()).then_some(MissingDays { source, customer_id, query_name, days, latest }))
}
