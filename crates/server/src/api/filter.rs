//! Filters as parameters give them. They mean what the command line's flags of the same names mean.

use redrive_control::runs::RunFilter;
use redrive_control::{Insight, dates};
use redrive_core::filter::Filter;
use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;

use crate::error::{Error, Result};
use crate::web::{Code, Param, ParamKind, Params, bad_param};

/// Which partitions.
pub const FILTER: &[Param] = &[
    Param::new("source", ParamKind::Keys, "Only this source; more than once for several"),
    Param::new("customer_id", ParamKind::Keys, "Only this customer; more than once for several"),
    Param::new("query_name", ParamKind::Keys, "Only this query; more than once for several"),
    Param::new("logical_date", ParamKind::Date, "Only this day: 2026-01-31, today, yesterday, 7d"),
    Param::new("since", ParamKind::Date, "Only from this day on"),
    Param::new("until", ParamKind::Date, "Only up to this day"),
    Param::new("status", ParamKind::Word(&["pending", "success", "failed"]), "Only with this status"),
    Param::new("error_class", ParamKind::Word(&["final", "retryable", "rate_limited"]), "Only failed like this"),
    Param::new(
        "group",
        ParamKind::Hex { most: 12 },
        "Only this failure group, by its id or an unambiguous beginning of it",
    ),
];

/// Why a filter may be refused though each of its values has the right form: days that cannot be meant, a failure group that is not
/// there.
pub const FILTERED: &[Code] = &[Code::Unusable, Code::NotFound];

const STATES: &[&str] = &["storing", "queued", "running", "waiting", "done", "dead"];

/// Which runs.
pub const RUN_FILTER: &[Param] = &[
    Param::new("workload", ParamKind::Word(&["extract", "ingest", "process"]), "Only of this kind"),
    Param::new("category", ParamKind::Texts, "Only jobs of this category; more than once for several"),
    Param::new("state", ParamKind::Words(STATES), "Only in this state; more than once for several"),
    Param::new("error_class", ParamKind::Word(&["final", "retryable", "rate_limited"]), "Only failed like this"),
    Param::new(
        "group",
        ParamKind::Hex { most: 12 },
        "Only this failure group, by its id or an unambiguous beginning of it",
    ),
    Param::new("since", ParamKind::Time, "Only submitted from this moment or day on"),
    Param::new("until", ParamKind::Time, "Only submitted before this moment, or up to this day"),
];

/// The partitions that parameters mean.
pub async fn partitions(params: &Params, insight: &Insight) -> Result<Filter> {
    let mut filter = Filter::exact(params.all("source"), params.all("customer_id"), params.all("query_name"))?;
    let day = |name: &str| -> Result<Option<LogicalDate>> {
        params.get(name).map(|text| dates::parse(text, insight.now()).map_err(|why| bad_param(name, &why))).transpose()
    };
    match day("logical_date")? {
        Some(_) if params.get("since").is_some() || params.get("until").is_some() => {
            return Err(Error::unusable("give either logical_date, or since and until"));
        }
        Some(date) => (filter.since, filter.until) = (Some(date), Some(date)),
        None => (filter.since, filter.until) = (day("since")?, day("until")?),
    }
    filter.status = params.parsed("status")?;
    filter.error_class = params.parsed("error_class")?;
    if let Some(group) = params.get("group") {
        filter.group = Some(insight.find_group(group).await?);
    }
    filter.check_dates(insight.bounds())?;
    Ok(filter)
}

/// The runs that parameters mean.
pub async fn runs(params: &Params, insight: &Insight) -> Result<RunFilter> {
    let now = insight.now();
    let moment = |name: &str, read: fn(&str, Timestamp) -> Result<Timestamp, String>| {
        params.get(name).map(|text| read(text, now).map_err(|why| bad_param(name, &why))).transpose()
    };
    let states = params.all("state").map(|text| text.parse().map_err(|error| bad_param("state", &error)));
    let filter = RunFilter {
        workload: params.parsed("workload")?,
        category: params.all("category").map(str::to_owned).collect(),
        state: states.collect::<Result<_>>()?,
        error_class: params.parsed("error_class")?,
        group: match params.get("group") {
            Some(group) => Some(insight.find_group(group).await?),
            None => None,
        },
        since: moment("since", dates::first_moment)?,
        until: moment("until", dates::last_moment)?,
    };
    match (filter.since, filter.until) {
        (Some(since), Some(until)) if since >= until => {
            Err(Error::unusable("since is not before until; exchange them"))
        }
        (_, _) => Ok(filter),
    }
}
