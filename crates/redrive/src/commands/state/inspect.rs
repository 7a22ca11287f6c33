//! `state inspect` and `terminal`: what is so now, nothing guessed.

use redrive_control::ControlPlane;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Mark, Partition, Status, Terminal};
use redrive_core::run::{Run, outcome};
use redrive_store::{Cooldown, Page};
use serde_json::{Value, json};

use super::{errors, filter, missing};
use crate::cli::{self, Format, Global, Inspect};
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

const PAGE: u32 = 1000;
pub const NOTHING: &str = "no entry found";

pub async fn run(args: &Inspect, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, plane, context.global.quiet)?;
    if args.missing {
        return missing::list(&filter, limit(args.limit), plane, context).await;
    }
    let page = Page { filter, paused: args.paused, ..Page::default() };
    let mut search = Search { plane, page, terminal: args.terminal, limit: limit(args.limit), found: 0, done: false };
    if args.group_by.is_some() {
        return errors::count(&mut Search { limit: u64::MAX, ..search }, context).await;
    }
    list(&mut search, args.history, context).await
}

pub async fn terminal(args: &cli::Terminal, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, plane, context.global.quiet)?;
    let page = Page { filter, ..Page::default() };
    let limit = limit(args.limit);
    list(&mut Search { plane, page, terminal: true, limit, found: 0, done: false }, false, context).await
}

fn limit(given: u32) -> u64 {
    if given == 0 { u64::MAX } else { given.into() }
}

/// A walk over what is asked for, a page at a time.
pub struct Search<'a> {
    pub plane: &'a ControlPlane,
    page: Page,
    terminal: bool,
    limit: u64,
    found: u64,
    done: bool,
}

impl Search<'_> {
    pub async fn next(&mut self, cooldowns: &[Cooldown]) -> Result<Vec<(Partition, Outlook)>> {
        while !self.done {
            self.page.limit = u32::try_from(self.limit - self.found).unwrap_or(PAGE).min(PAGE);
            if self.terminal {
                self.page.limit = PAGE;
                self.page.filter.status.get_or_insert(Status::Failed);
            }
            let page = self.plane.view().partitions(self.page.clone()).await?;
            self.done = page.len() < usize::try_from(self.page.limit).unwrap_or(usize::MAX);
            self.page.after = page.last().map(|last| last.state.key.clone());
            let mut kept: Vec<_> = page
                .into_iter()
                .map(|partition| {
                    let outlook = self.plane.outlook(&partition, cooldowns);
                    (partition, outlook)
                })
                .filter(|(partition, _)| !self.terminal || self.plane.terminal(partition).is_some())
                .collect();
            kept.truncate(usize::try_from(self.limit - self.found).unwrap_or(usize::MAX));
            self.found += u64::try_from(kept.len()).unwrap_or(u64::MAX);
            self.done |= self.found >= self.limit;
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        Ok(vec![])
    }
}

async fn list(search: &mut Search<'_>, history: bool, context: &Context) -> Result<Exit> {
    let cooldowns = search.plane.cooldowns().await?;
    let mut listing = Listing { history, global: &context.global, objects: vec![], rows: vec![], count: 0 };
    loop {
        let page = search.next(&cooldowns).await?;
        if page.is_empty() {
            break;
        }
        let mut attempts = match history {
            true => {
                let keys = page.iter().map(|(partition, _)| partition.state.key.clone()).collect();
                search.plane.view().attempts_of(keys).await?.into_iter()
            }
            false => Vec::new().into_iter(),
        };
        for (partition, outlook) in &page {
            listing.add(partition, outlook, search.plane, attempts.next().as_deref())?;
        }
    }
    let count = listing.count;
    listing.end()?;
    if search.found >= search.limit && search.limit > 1 && !context.global.quiet {
        output::note(&format!("the first {} are shown; --limit gives more", search.limit));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}

/// A partition's fields, and those of an attempt, as JSON and CSV call them.
const FIELDS: [&str; 13] = [
    "status",
    "current_run_id",
    "record_count",
    "attempt_count",
    "error_class",
    "error_message",
    "terminal",
    "paused",
    "lane",
    "next_retry_at",
    "active_run_id",
    "created_at",
    "updated_at",
];
const ATTEMPT: [&str; 8] =
    ["run_id", "attempt", "outcome", "error_class", "error_message", "record_count", "started_at", "finished_at"];

/// What is found, printed as it comes where the format allows it.
struct Listing<'a> {
    history: bool,
    global: &'a Global,
    objects: Vec<Value>,
    rows: Vec<Vec<String>>,
    count: u64,
}

impl Listing<'_> {
    /// With `--history` CSV is a table of attempts: two kinds of rows would be no table.
    fn names(&self) -> Vec<&'static str> {
        [output::KEY.as_slice(), if self.history { ATTEMPT.as_slice() } else { &FIELDS }].concat()
    }

    fn add(
        &mut self,
        partition: &Partition,
        outlook: &Outlook,
        plane: &ControlPlane,
        attempts: Option<&[Run]>,
    ) -> Result<()> {
        self.count += 1;
        match self.global.output {
            Format::Json => self.objects.push(object(partition, outlook, plane, attempts)),
            Format::Jsonl => output::json(&object(partition, outlook, plane, attempts))?,
            Format::Table => {
                self.rows.push(row(partition, outlook, plane));
                self.rows.extend(attempts.into_iter().flatten().map(attempt_row));
            }
            Format::Csv => {
                if self.count == 1 {
                    output::csv_header(&self.names())?;
                }
                self.csv(&object(partition, outlook, plane, attempts))?;
            }
        }
        Ok(())
    }

    fn csv(&self, partition: &Value) -> Result<()> {
        let key = output::cells(&output::KEY, partition);
        match partition.get("history").and_then(Value::as_array) {
            None => output::csv(&[key, output::cells(&FIELDS, partition)].concat()),
            // One that was never tried is not left out.
            Some(attempts) if attempts.is_empty() => {
                output::csv(&[key, output::cells(&ATTEMPT, &Value::Null)].concat())
            }
            Some(attempts) => attempts
                .iter()
                .try_for_each(|attempt| output::csv(&[key.clone(), output::cells(&ATTEMPT, attempt)].concat())),
        }
    }

    fn end(self) -> Result<()> {
        let names = self.names();
        match self.global.output {
            Format::Json => output::json(&json!({"partitions": self.objects})),
            Format::Table if self.count > 0 => {
                let header =
                    ["source", "customer", "query", "date", "status", "attempts", "records", "run", "next", "error"];
                output::line(&output::table(&header, self.rows))
            }
            Format::Table | Format::Csv if self.count == 0 => output::nothing(NOTHING, &names, self.global),
            Format::Table | Format::Csv | Format::Jsonl => Ok(()),
        }
    }
}

fn row(partition: &Partition, outlook: &Outlook, plane: &ControlPlane) -> Vec<String> {
    let state = &partition.state;
    let mut next = match outlook {
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
    if let Outlook::Paused(_) | Outlook::InFlight { .. } = outlook {
        match plane.terminal(partition) {
            Some(Terminal::ByPolicy(stop)) => next.push_str(&format!("; terminal: {stop}")),
            Some(Terminal::Marked(_)) => next.push_str("; terminal"),
            None => {}
        }
    }
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
fn object(partition: &Partition, outlook: &Outlook, plane: &ControlPlane, history: Option<&[Run]>) -> Value {
    let (state, control) = (&partition.state, &partition.control);
    let mark = |mark: &Mark| json!({"why": mark.why, "by": mark.by, "at": mark.at});
    let terminal = match plane.terminal(partition) {
        Some(Terminal::Marked(marked)) => {
            let mut value = mark(marked);
            value["policy"] = Value::Null;
            value
        }
        Some(Terminal::ByPolicy(stop)) => json!({"why": null, "by": null, "at": null, "policy": stop}),
        None => Value::Null,
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
