//! `[sources.NAME]`: what is extracted, when it is expected, and how it is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::key::{CustomerId, LogicalDate, QueryName};
use redrive_data::settings::duration;
use redrive_data::{extract, validate};
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSection {
    pub customers: Vec<CustomerId>,
    pub calendar: Option<CalendarSection>,
    pub queries: BTreeMap<QueryName, QuerySection>,
    pub retry: RetrySection,
    pub terminal_after: Option<u32>,
    pub extract: Option<extract::Settings>,
    pub validate: validate::Settings,
    pub max_in_flight: Option<u32>,
    /// The most bytes that an attempt may bring.
    pub max_bytes: Option<u64>,
    /// How long a rate limit that does not say holds back its siblings.
    #[serde(deserialize_with = "duration::option")]
    pub cooldown: Option<Duration>,
    pub breaker: BreakerSection,
}

/// What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSection {
    /// So many failures alike, one after another, hold the source or the customer; 0 turns it off.
    pub after: Option<u32>,
    /// How long the wait is before one attempt goes ahead.
    #[serde(deserialize_with = "duration::option")]
    pub probe: Option<Duration>,
}

impl BreakerSection {
    pub fn policy(&self) -> BreakerPolicy {
        let default = BreakerPolicy::default();
        BreakerPolicy { after: self.after.unwrap_or(default.after), probe: self.probe.unwrap_or(default.probe) }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySection {
    pub query: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSection {
    pub start: LogicalDate,
    #[serde(default = "utc")]
    pub timezone: String,
    #[serde(default = "midnight")]
    pub ready_at: jiff::civil::Time,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn midnight() -> jiff::civil::Time {
    jiff::civil::Time::midnight()
}

/// What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySection {
    #[serde(deserialize_with = "duration::option")]
    pub base: Option<Duration>,
    pub multiplier: Option<f64>,
    #[serde(deserialize_with = "duration::option")]
    pub cap: Option<Duration>,
    #[serde(deserialize_with = "duration::option")]
    pub jitter: Option<Duration>,
    #[serde(deserialize_with = "duration::list")]
    pub delays: Option<Vec<Duration>>,
    pub max_attempts: Option<u32>,
    #[serde(deserialize_with = "duration::option")]
    pub max_age: Option<Duration>,
    /// How long the waits that rate limits ask for may be together, before one counts.
    #[serde(deserialize_with = "duration::option")]
    pub rate_limit_budget: Option<Duration>,
}
