//! The sources' sections, made into the control plane's rules.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use redrive_control::{SourceRules, Sources};
use redrive_core::calendar::Calendar;
use redrive_core::key::Source;
use redrive_core::retry::{Backoff, RetryPolicy};

use super::sections::{CalendarSection, RetrySection, SourceSection};

pub(super) fn resolve(sections: &BTreeMap<Source, SourceSection>) -> Result<Sources, String> {
    let mut known = BTreeMap::new();
    for (source, section) in sections {
        let wrong = |why: String| format!("sources.{source}: {why}");
        let calendar = section.calendar.as_ref().map(calendar).transpose().map_err(wrong)?;
        let rules = SourceRules {
            retry: policy(&section.retry, RetryPolicy::partitions()).map_err(wrong)?,
            terminal_after: section.terminal_after,
            customers: section.customers.clone(),
            queries: section.queries.keys().cloned().collect(),
            calendar,
        };
        known.insert(source.clone(), rules);
    }
    Ok(Sources::new(known))
}

fn calendar(section: &CalendarSection) -> Result<Calendar, String> {
    let timezone = TimeZone::get(&section.timezone)
        .map_err(|_| format!("calendar.timezone {:?} is unknown; name one like \"Europe/Berlin\"", section.timezone))?;
    Ok(Calendar { start: section.start, timezone, ready_at: section.ready_at })
}

/// A policy with what the section says in place of the defaults.
pub(super) fn policy(section: &RetrySection, default: RetryPolicy) -> Result<RetryPolicy, String> {
    let backoff = match (&section.delays, default.backoff) {
        (Some(delays), _) => Backoff::Fixed(delays.clone()),
        (None, Backoff::Exponential { base, multiplier, cap }) => Backoff::Exponential {
            base: section.base.unwrap_or(base),
            multiplier: section.multiplier.unwrap_or(multiplier),
            cap: section.cap.unwrap_or(cap),
        },
        (None, fixed @ Backoff::Fixed(_)) => fixed,
    };
    if let Some(multiplier) = section.multiplier
        && !(multiplier.is_finite() && multiplier >= 1.0)
    {
        return Err(format!("retry.multiplier {multiplier} is less than 1; delays must not shrink"));
    }
    if section.delays.is_some() && (section.base.is_some() || section.multiplier.is_some() || section.cap.is_some()) {
        return Err("retry.delays stands instead of base, multiplier and cap; give one or the other".to_owned());
    }
    if section.max_attempts == Some(0) {
        return Err("retry.max_attempts is 0; at least one attempt must be allowed".to_owned());
    }
    Ok(RetryPolicy {
        backoff,
        jitter: section.jitter.unwrap_or(default.jitter),
        max_attempts: section.max_attempts.or(default.max_attempts),
        max_age: section.max_age.or(default.max_age),
        hint: default.hint,
    })
}
