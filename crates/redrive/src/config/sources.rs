//! The sources' sections, made into the control plane's rules.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use redrive_control::{SourceRules, Sources};
use redrive_core::calendar::Calendar;
use redrive_core::key::Source;
use redrive_core::retry::{Backoff, RetryPolicy};
use redrive_data::settings::SettingError;

use super::sections::{CalendarSection, RetrySection, SourceSection};

pub(super) fn resolve(sections: &BTreeMap<Source, SourceSection>) -> Result<Sources, SettingError> {
    let mut known = BTreeMap::new();
    for (source, section) in sections {
        let invalid = |mistake: SettingError| mistake.within(source.as_str()).within("sources");
        let calendar = section.calendar.as_ref().map(calendar).transpose().map_err(invalid)?;
        let rules = SourceRules {
            retry: policy(&section.retry, RetryPolicy::partitions()).map_err(invalid)?,
            terminal_after: section.terminal_after,
            customers: section.customers.clone(),
            queries: section.queries.keys().cloned().collect(),
            calendar,
            has_extract: section.extract.is_some(),
        };
        known.insert(source.clone(), rules);
    }
    Ok(Sources::new(known))
}

fn calendar(section: &CalendarSection) -> Result<Calendar, SettingError> {
    let unknown = || format!("{:?} is unknown; name one like \"Europe/Berlin\"", section.timezone);
    let timezone =
        TimeZone::get(&section.timezone).map_err(|_| SettingError::at("timezone", unknown()).within("calendar"))?;
    Ok(Calendar { start: section.start, timezone, ready_at: section.ready_at })
}

/// A policy with what the section says in place of the defaults.
pub(super) fn policy(section: &RetrySection, default: RetryPolicy) -> Result<RetryPolicy, SettingError> {
    let backoff = match (&section.delays, default.backoff) {
        (Some(delays), _) => Backoff::Fixed(delays.clone()),
        (None, Backoff::Exponential { base, multiplier, cap }) => Backoff::Exponential {
            base: section.base.unwrap_or(base),
            multiplier: section.multiplier.unwrap_or(multiplier),
            cap: section.cap.unwrap_or(cap),
        },
        (None, fixed @ Backoff::Fixed(_)) => fixed,
    };
    let invalid = |key: &str, why: String| Err(SettingError::at(key, why).within("retry"));
    if let Some(multiplier) = section.multiplier
        && !(multiplier.is_finite() && multiplier >= 1.0)
    {
        return invalid("multiplier", format!("{multiplier} is less than 1; delays must not shrink"));
    }
    if section.delays.is_some() && (section.base.is_some() || section.multiplier.is_some() || section.cap.is_some()) {
        let why = "delays stand instead of base, multiplier and cap; give one or the other";
        return Err(SettingError::at("delays", why).also(&["base", "multiplier", "cap"]).within("retry"));
    }
    if section.max_attempts == Some(0) {
        return invalid("max_attempts", "0 is too little; at least one attempt must be allowed".to_owned());
    }
    Ok(RetryPolicy {
        backoff,
        jitter: section.jitter.unwrap_or(default.jitter),
        max_attempts: section.max_attempts.or(default.max_attempts),
        max_age: section.max_age.or(default.max_age),
        hint: default.hint,
        rate_limit_budget: section.rate_limit_budget.or(default.rate_limit_budget),
    })
}
