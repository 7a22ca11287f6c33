//! Why there is no entry for a partition: what the calendar here says of its day.

use redrive_core::key::PartitionKey;
use redrive_core::process::{Kind, Living};
use redrive_core::reason::Absence;

use super::partition::{Action, Explanation};
use crate::insight::Insight;

pub(super) fn explain(insight: &Insight, key: &PartitionKey, living: &Living<'_>) -> Explanation {
    let absence = absence(insight, key, living);
    let action = match absence {
        Absence::Expected => (!living.has(Kind::Daemon)).then_some(Action::StartDaemon),
        Absence::NoCalendar | Absence::UnknownCustomer | Absence::UnknownQuery | Absence::BeforeStart(_) => {
            Some(Action::Backfill)
        }
        Absence::UnknownSource => Some(Action::Configure),
        Absence::NotReady(_) => None,
    };
    Explanation {
        key: key.clone(),
        status: None,
        reason: absence.reason(),
        because: in_words(absence, insight, key, living),
        action,
        next_retry_at: None,
        attempt_count: 0,
        max_attempts: insight.sources().of(&key.source).retry.attempt_limit(),
        granted: 0,
        reprocess_rejected: None,
        error_class: None,
        error_message: None,
        now: insight.now(),
    }
}

fn absence(insight: &Insight, key: &PartitionKey, living: &Living<'_>) -> Absence {
    let (source, rules) = (&key.source, insight.sources().of(&key.source));
    if !insight.sources().is_known(source) {
        return match living.extracting(source).next() {
            Some(_) => Absence::NoCalendar,
            None => Absence::UnknownSource,
        };
    }
    let Some(calendar) = &rules.calendar else { return Absence::NoCalendar };
    if !rules.customers.contains(&key.customer_id) {
        return Absence::UnknownCustomer;
    }
    if !rules.queries.contains(&key.query_name) {
        return Absence::UnknownQuery;
    }
    if key.logical_date < calendar.start {
        return Absence::BeforeStart(calendar.start);
    }
    match calendar.latest_ready(insight.now()) {
        Some(latest) if key.logical_date <= latest => Absence::Expected,
        latest => Absence::NotReady(latest),
    }
}

fn in_words(absence: Absence, insight: &Insight, key: &PartitionKey, living: &Living<'_>) -> String {
    let source = &key.source;
    match absence {
        Absence::UnknownSource => {
            format!("there is no entry; this configuration has no [sources.{source}], and no living worker serves it")
        }
        Absence::NoCalendar => format!("there is no entry; source {source} has no calendar here that would want it"),
        Absence::UnknownCustomer => {
            format!("there is no entry; the calendar of source {source} does not name customer {}", key.customer_id)
        }
        Absence::UnknownQuery => {
            format!("there is no entry; source {source} has no query {}", key.query_name)
        }
        Absence::BeforeStart(start) => format!("there is no entry; the calendar of source {source} begins on {start}"),
        Absence::NotReady(latest) => {
            let ready_at = insight.sources().of(source).calendar.as_ref().map(|calendar| {
                format!("a day is ready at {} ({}) of the next day", calendar.ready_at, zone(calendar))
            });
            let latest = latest.map_or("none is yet".to_owned(), |latest| format!("{latest} is the latest"));
            format!("there is no entry yet; {}, and {latest}", ready_at.unwrap_or_default())
        }
        Absence::Expected => match living.has(Kind::Daemon) {
            true => "there is no entry; the calendar expects it, and the daemon's next tick wants it".to_owned(),
            false => "there is no entry; the calendar expects it, and no daemon lives that would want it".to_owned(),
        },
    }
}

fn zone(calendar: &redrive_core::calendar::Calendar) -> String {
    calendar.timezone.iana_name().unwrap_or("UTC").to_owned()
}
