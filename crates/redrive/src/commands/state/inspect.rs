//! `state inspect`, `explain` and `terminal`: what is so now, nothing guessed.

use std::collections::BTreeMap;

use redrive_control::{ControlPlane, expected};
use redrive_core::filter::Filter;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Mark, Partition, Status};
use redrive_core::run::{Run, outcome};
use redrive_store::{Cooldown, Page};
use serde_json::{Value, json};

use super::filter;
use crate::cli::{Format, Inspect, KeyArgs, Terminal};
use crate::commands::Context;
use crate::exit::Exit;
use crate::output;

const PAGE: u32 = 1000;
const NOTHING: &str = "no entry found";

pub async fn run(args: &Inspect, plane: &ControlPlane, context: &Context) -> anyhow::Result<Exit> {
    let filter = filter::resolve(&args.filter, plane, context.global.quiet)?;
    if args.missing {
        return missing(&filter, args.limit, plane, context).await;
    }
    let page = Page { filter, paused: args.paused, ..Page::default() };
    let mut search = Search { plane, page, terminal: args.terminal, limit: limit(args.limit), found: 0, done: false };
    if args.group_by.is_some() {
        return group(&mut Search { limit: u64::MAX, ..search }, context).await;
    }
    list(&mut search, args.history, context).await
}

pub async fn terminal(args: &Terminal, plane: &ControlPlane, context: &Context) -> anyhow::Result<Exit> {
    let filter = filter::resolve(&args.filter, plane, context.global.quiet)?;
    let page = Page { filter, ..Page::default() };
    let limit = limit(args.limit);
    list(&mut Search { plane, page, terminal: true, limit, found: 0, done: false }, false, context).await
}

fn limit(given: u32) -> u64 {
    if given == 0 { u64::MAX } else { given.into() }
}

/// A walk over what is asked for, a page at a time.
struct Search<'a> {
    plane: &'a ControlPlane,
    page: Page,
    terminal: bool,
    limit: u64,
    found: u64,
    done: bool,
}

impl Search<'_> {
    async fn next(&mut self, cooldowns: &[Cooldown]) -> anyhow::Result<Vec<(Partition, Outlook)>> {
        while !self.done {
            self.page.limit = u32::try_from(self.limit - self.found).unwrap_or(PAGE).min(PAGE);
            if self.terminal {
                self.page.limit = PAGE;
                self.page.filter.status.get_or_insert(Status::Failed);
            }
            let page = self.plane.view().partitions(self.page.clone()).await?;
            self.done = page.len() < usize::try_from(self.page.limit)?;
            self.page.after = page.last().map(|last| last.state.key.clone());
            let mut kept: Vec<_> = page
                .into_iter()
                .map(|partition| {
                    let outlook = self.plane.outlook(&partition, cooldowns);
                    (partition, outlook)
                })
                .filter(|(partition, outlook)| !self.terminal || is_terminal(partition, outlook))
                .collect();
            kept.truncate(usize::try_from(self.limit - self.found).unwrap_or(usize::MAX));
            self.found += u64::try_from(kept.len())?;
            self.done |= self.found >= self.limit;
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        Ok(vec![])
    }
}

fn is_terminal(partition: &Partition, outlook: &Outlook) -> bool {
    partition.control.terminal.is_some() || matches!(outlook, Outlook::Exhausted(_))
}

async fn list(search: &mut Search<'_>, history: bool, context: &Context) -> anyhow::Result<Exit> {
    let cooldowns = search.plane.cooldowns().await?;
    let format = context.global.output;
    let (mut objects, mut rows, mut count) = (Vec::new(), Vec::new(), 0);
    loop {
        let page = search.next(&cooldowns).await?;
        if page.is_empty() {
            break;
        }
        for (partition, outlook) in &page {
            count += 1;
            let attempts = match history {
                true => Some(search.plane.view().attempts(&partition.state.key).await?),
                false => None,
            };
            match format {
                Format::Json => objects.push(object(partition, outlook, attempts.as_deref())),
                Format::Jsonl => output::json(&object(partition, outlook, attempts.as_deref()))?,
                Format::Table | Format::Csv => {
                    rows.push(row(partition, outlook));
                    rows.extend(attempts.iter().flatten().map(attempt_row));
                }
            }
        }
    }
    match format {
        Format::Json => output::json(&json!({"partitions": objects}))?,
        Format::Jsonl => {}
        Format::Table | Format::Csv if rows.is_empty() => output::line(NOTHING),
        Format::Table | Format::Csv => {
            let header =
                ["source", "customer", "query", "date", "status", "attempts", "records", "run", "next", "error"];
            output::rows(&header, rows, format);
        }
    }
    if search.found >= search.limit && search.limit > 1 && !context.global.quiet {
        output::say(&format!("the first {} are shown; --limit gives more", search.limit));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}

fn row(partition: &Partition, outlook: &Outlook) -> Vec<String> {
    let state = &partition.state;
    let next = match outlook {
        Outlook::Waiting { until, .. } => format!("retry at {until}"),
        Outlook::CoolingDown { until } => format!("cooling down until {until}"),
        Outlook::Done => String::new(),
        Outlook::Queued { lane, .. } => format!("queued, {lane}"),
        Outlook::Exhausted(stop) => format!("terminal: {stop}"),
        Outlook::InFlight { .. }
        | Outlook::Paused(_)
        | Outlook::Marked(_)
        | Outlook::FinalError
        | Outlook::TooOldByThen { .. }
        | Outlook::Due { .. }
        | Outlook::NotQueued => outlook.code().to_owned(),
    };
    let rest = vec![
        state.status.as_str().to_owned(),
        state.attempt_count.to_string(),
        state.record_count.map_or_else(String::new, |count| count.to_string()),
        state.current_run_id.map_or_else(String::new, |run| run.to_string()),
        next,
        state.error_message.clone().unwrap_or_default(),
    ];
    [output::key(&state.key), rest].concat()
}

fn attempt_row(run: &Run) -> Vec<String> {
    let blank = String::new;
    let at = run.started_at.map_or_else(blank, |at| at.to_string());
    let error = run.error_message.clone().unwrap_or_default();
    let (attempt, id) = (run.attempt.to_string(), run.run_id.to_string());
    vec![blank(), blank(), blank(), blank(), outcome(run).to_string(), attempt, blank(), id, at, error]
}

/// The shape that scripts rely on.
fn object(partition: &Partition, outlook: &Outlook, history: Option<&[Run]>) -> Value {
    let (state, control) = (&partition.state, &partition.control);
    let mark = |mark: &Mark| json!({"why": mark.why, "by": mark.by, "at": mark.at});
    let terminal = match (&control.terminal, outlook) {
        (Some(marked), _) => {
            let mut value = mark(marked);
            value["policy"] = Value::Null;
            value
        }
        (None, Outlook::Exhausted(stop)) => json!({"why": null, "by": null, "at": null, "policy": stop}),
        (None, _) => Value::Null,
    };
    let mut value = serde_json::to_value(&state.key).unwrap_or_default();
    value["status"] = json!(state.status);
    value["current_run_id"] = json!(state.current_run_id);
    value["record_count"] = json!(state.record_count);
    value["attempt_count"] = json!(state.attempt_count);
    value["error_class"] = json!(state.error_class);
    value["error_message"] = json!(state.error_message);
    value["terminal"] = terminal;
    value["paused"] = control.paused.as_ref().map_or(Value::Null, mark);
    value["lane"] = json!(control.wanted.map(|wanted| wanted.lane));
    value["next_retry_at"] = json!(outlook.next_retry_at());
    value["active_run_id"] = json!(control.active.map(|active| active.run_id));
    value["created_at"] = json!(state.created_at);
    value["updated_at"] = json!(state.updated_at);
    if let Some(runs) = history {
        value["history"] = runs.iter().map(attempt).collect();
    }
    value
}

fn attempt(run: &Run) -> Value {
    let records = run.metrics.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({
        "run_id": run.run_id, "attempt": run.attempt, "outcome": outcome(run), "error_class": run.error_class,
        "error_message": run.error_message, "record_count": records.and_then(|metrics| metrics.get("records").cloned()),
        "started_at": run.started_at, "finished_at": run.completed_at,
    })
}

async fn group(search: &mut Search<'_>, context: &Context) -> anyhow::Result<Exit> {
    let cooldowns = search.plane.cooldowns().await?;
    let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
    loop {
        let page = search.next(&cooldowns).await?;
        if page.is_empty() {
            break;
        }
        for (partition, _) in page {
            let Some(message) = partition.state.error_message else { continue };
            let class = partition.state.error_class.map_or("", |class| class.as_str()).to_owned();
            *groups.entry((class, message)).or_default() += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let objects = groups
        .iter()
        .map(|((class, message), count)| json!({"error_class": class, "error_message": message, "count": count}));
    match context.global.output {
        Format::Json => output::json(&json!({"groups": objects.collect::<Vec<_>>()}))?,
        Format::Jsonl => objects.into_iter().try_for_each(|group| output::json(&group))?,
        Format::Table | Format::Csv if groups.is_empty() => output::line(NOTHING),
        Format::Table | Format::Csv => {
            let rows =
                groups.iter().map(|((class, message), count)| vec![count.to_string(), class.clone(), message.clone()]);
            output::rows(&["count", "class", "error"], rows.collect(), context.global.output);
        }
    }
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}

async fn missing(filter: &Filter, given: u32, plane: &ControlPlane, context: &Context) -> anyhow::Result<Exit> {
    let limit = limit(given);
    let (mut count, mut keys) = (0u64, Vec::new());
    'search: for (stretch, latest) in expected::stretches(plane, filter) {
        let Some(gap) = expected::gap(plane, stretch, latest).await? else { continue };
        for key in gap.keys() {
            if count >= limit {
                break 'search;
            }
            count += 1;
            match context.global.output {
                Format::Jsonl => output::json(&key)?,
                Format::Table => output::line(&output::key(&key).join("  ")),
                Format::Csv => output::csv(&output::key(&key)),
                Format::Json => keys.push(key),
            }
        }
    }
    if context.global.output == Format::Json {
        output::json(&json!({"missing": keys}))?;
    }
    if count == 0 && context.global.output == Format::Table {
        output::line("nothing is missing");
    }
    if count >= limit && !context.global.quiet {
        output::say(&format!("the first {limit} are shown; --limit gives more"));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}

pub async fn explain(args: &KeyArgs, plane: &ControlPlane, context: &Context) -> anyhow::Result<Exit> {
    let key = filter::key(args, plane)?;
    let Some(explanation) = plane.explain(&key).await? else {
        match context.global.output {
            Format::Json | Format::Jsonl => output::json(&Value::Null)?,
            Format::Table | Format::Csv => output::line(NOTHING),
        }
        return Ok(Exit::NothingFound);
    };
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&explanation)?,
        Format::Table | Format::Csv => {
            output::line(&output::printable(&format!("{key} is {}", explanation.status)));
            output::line(&output::printable(&format!("{}: {}", explanation.reason, explanation.because)));
            if let (Some(class), Some(message)) = (explanation.error_class, &explanation.error_message) {
                output::line(&output::printable(&format!("last error: {class}: {message}")));
            }
        }
    }
    Ok(Exit::Done)
}
