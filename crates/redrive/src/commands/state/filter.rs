//! Filter flags, resolved once. A relative date is echoed as the day it came to.

use redrive_control::{Insight, dates};
use redrive_core::filter::{Filter, FilterError};
use redrive_core::key::{LogicalDate, PartitionKey};

use super::words;
use crate::cli::{FilterArgs, KeyArgs};
use crate::error::{Error, Result};
use crate::output;

pub async fn resolve(args: &FilterArgs, insight: &Insight, quiet: bool) -> Result<Filter> {
    let now = insight.now();
    let exact = Filter::exact(texts(&args.source), texts(&args.customer_id), texts(&args.query_name));
    let mut filter = exact.map_err(|error| in_flags(&error))?;
    let day = |flag: &str, text: &Option<String>| -> Result<Option<LogicalDate>> {
        let Some(text) = text else { return Ok(None) };
        let date = dates::parse(text, now).map_err(|why| Error::Usage(format!("{flag}: {why}")))?;
        if !quiet && date.to_string() != *text {
            output::note(&format!("{flag} {text} is {date}"));
        }
        Ok(Some(date))
    };
    match day("--logical-date", &args.logical_date)? {
        Some(date) => (filter.since, filter.until) = (Some(date), Some(date)),
        None => (filter.since, filter.until) = (day("--since", &args.since)?, day("--until", &args.until)?),
    }
    filter.status =
        args.status.as_deref().map(str::parse).transpose().map_err(|e| Error::Usage(format!("--status: {e}")))?;
    filter.error_class = args
        .error_class
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|e| Error::Usage(format!("--error-class: {e}")))?;
    if let Some(group) = &args.group {
        filter.group = Some(insight.find_group(group).await.map_err(words::of)?);
    }
    filter.check_dates(insight.bounds()).map_err(|error| in_flags(&error))?;
    Ok(filter)
}

fn texts(values: &[String]) -> impl Iterator<Item = &str> {
    values.iter().map(String::as_str)
}

/// Says what is wrong with a filter by the flags that gave it.
pub fn in_flags(error: &FilterError) -> Error {
    Error::Usage(error.text(|field| format!("--{}", field.as_str().replace('_', "-"))))
}

pub fn key(args: &KeyArgs, insight: &Insight) -> Result<PartitionKey> {
    let date = dates::parse(&args.logical_date, insight.now())
        .map_err(|why| Error::Usage(format!("--logical-date: {why}")))?;
    PartitionKey::new(&args.source, &args.customer_id, &args.query_name, &date.to_string())
        .map_err(|error| Error::Usage(error.to_string()))
}
