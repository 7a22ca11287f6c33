//! Times and filters of runs as flags give them, resolved once.

use std::time::Duration;

use redrive_control::Insight;
use redrive_control::dates::{self, rfc3339};
use redrive_control::runs::RunFilter;
use redrive_core::UnknownWord;
use redrive_core::time::Timestamp;
use redrive_data::settings::duration;

use crate::cli::RunFilterArgs;
use crate::commands::state::words;
use crate::error::{Error, Result};

pub async fn resolve(args: &RunFilterArgs, insight: &Insight) -> Result<RunFilter> {
    let group = match &args.group {
        Some(text) => Some(insight.find_group(text).await.map_err(words::of)?),
        None => None,
    };
    Ok(RunFilter { group, ..without_group(args, insight.now())? })
}

fn without_group(args: &RunFilterArgs, now: Timestamp) -> Result<RunFilter> {
    let unknown = |flag: &str| {
        let flag = flag.to_owned();
        move |error: UnknownWord| Error::Usage(format!("{flag}: {error}"))
    };
    let word = |text: &Option<String>| text.clone();
    let filter = RunFilter {
        workload: word(&args.workload).map(|text| text.parse()).transpose().map_err(unknown("--workload"))?,
        category: args.category.clone(),
        state: args.state.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(unknown("--state"))?,
        error_class: word(&args.error_class).map(|text| text.parse()).transpose().map_err(unknown("--error-class"))?,
        group: None,
        since: args.since.as_deref().map(|text| since("--since", text, now)).transpose()?,
        until: args.until.as_deref().map(|text| until("--until", text, now)).transpose()?,
    };
    if let (Some(since), Some(until)) = (filter.since, filter.until)
        && since >= until
    {
        return Err(Error::Usage("--since is not before --until; exchange them".to_owned()));
    }
    Ok(filter)
}

/// A day's beginning, or a moment.
pub fn since(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    dates::first_moment(text, now).map_err(|why| Error::Usage(format!("{flag}: {why}")))
}

/// A day's end, or a moment.
fn until(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    dates::last_moment(text, now).map_err(|why| Error::Usage(format!("{flag}: {why}")))
}

/// A moment as a flag gives it.
pub fn moment(flag: &str, text: &str) -> Result<Timestamp> {
    rfc3339(text)
        .ok_or_else(|| Error::Usage(format!("{flag}: {text:?} is no time; write it like 2026-01-31T04:00:00Z")))
}

/// A moment, or a span from now.
pub fn moment_or_span(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    let span: Option<Duration> = duration::parse(text).ok();
    rfc3339(text).or_else(|| span.map(|span| now.saturating_add(span))).ok_or_else(|| {
        let todo = "write it like 2026-01-31T04:00:00Z, or a span from now like 10m";
        Error::Usage(format!("{flag}: {text:?} is no time; {todo}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        rfc3339(text).unwrap()
    }

    #[test]
    fn a_day_counts_whole_and_a_moment_as_it_is() {
        let now = at("2026-03-01T12:00:00Z");
        let args = |since: &str, until: &str| RunFilterArgs {
            since: Some(since.to_owned()),
            until: Some(until.to_owned()),
            ..RunFilterArgs::default()
        };
        let filter = without_group(&args("7d", "yesterday"), now).unwrap();
        assert_eq!((filter.since, filter.until), (Some(at("2026-02-22T00:00:00Z")), Some(at("2026-03-01T00:00:00Z"))));
        let filter = without_group(&args("2026-02-01T05:00:00+01:00", "2026-02-01"), now).unwrap();
        assert_eq!((filter.since, filter.until), (Some(at("2026-02-01T04:00:00Z")), Some(at("2026-02-02T00:00:00Z"))));
        assert!(without_group(&args("today", "yesterday"), now).is_err());
        assert!(
            without_group(&args("soon", "today"), now)
                .unwrap_err()
                .to_string()
                .starts_with("--since: \"soon\" is no time")
        );
    }

    #[test]
    fn unknown_words_are_answered_with_the_known_ones() {
        let args = RunFilterArgs { state: vec!["queued".to_owned(), "gone".to_owned()], ..RunFilterArgs::default() };
        let error = without_group(&args, at("2026-03-01T12:00:00Z")).unwrap_err().to_string();
        assert!(error.starts_with("--state: run state \"gone\" is unknown; it is one of storing, queued"), "{error}");
    }

    #[test]
    fn a_start_may_be_a_span_from_now() {
        let now = at("2026-03-01T12:00:00Z");
        assert_eq!(moment_or_span("--not-before", "10m", now).unwrap(), at("2026-03-01T12:10:00Z"));
        assert_eq!(moment_or_span("--not-before", "2026-03-02T00:00:00Z", now).unwrap(), at("2026-03-02T00:00:00Z"));
        assert!(moment_or_span("--not-before", "tomorrow", now).is_err());
        assert!(moment("--submitted-at", "10m").is_err());
    }
}
