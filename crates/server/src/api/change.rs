//! Changes of many partitions or runs by a filter: the body that all of them share, and what the number of them asks for.

use std::sync::atomic::AtomicBool;

use redrive_control::runs::RunFilter;
use redrive_control::{Audit, Insight, PlanAsk, Request, RunRequest, RunSelection, RunVerb, Verb, Watch};
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::retry::Grant;
use redrive_core::role::Role;
use redrive_core::safety::{Confirmation, Given, Rails, confirmation};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::filter::{self, FILTER, RUN_FILTER};
use crate::error::{Error, Result};
use crate::web::{Caller, Code, FieldFault, Param, Params};

/// The options of a change. Which of them a verb knows is checked with the verb.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeBody {
    /// The verb of a plan; a path names it otherwise.
    pub verb: Option<String>,
    pub filter: Map<String, Value>,
    /// Runs by their ids, in place of a filter.
    pub runs: Option<Vec<RunId>>,
    /// Everything is meant, so that an empty filter is none by mistake.
    pub all: bool,
    pub dry_run: bool,
    pub force: bool,
    pub confirm: Option<u64>,
    pub reason: Option<String>,
    /// Changes no more than this many, the first in key order.
    pub limit: Option<u64>,
    pub clear_terminal: bool,
    pub allow_missing_raw: bool,
    pub stale: bool,
    /// So many further attempts, or `full`.
    pub grant: Option<Grant>,
    /// Takes requests to reprocess back.
    pub withdraw: bool,
    pub force_pending: bool,
}

/// The body of a change, as JSON Schema.
pub fn described() -> Value {
    let flag = json!({"type": "boolean"});
    let properties = json!({
        "verb": {"type": ["string", "null"]}, "filter": {"type": "object"},
        "runs": {"type": ["array", "null"], "items": {"type": "string", "format": "uuid"}},
        "all": flag, "dry_run": flag, "force": flag, "confirm": {"type": ["integer", "null"], "minimum": 0},
        "reason": {"type": ["string", "null"]}, "clear_terminal": flag, "allow_missing_raw": flag, "stale": flag,
        "force_pending": flag, "withdraw": flag, "limit": {"type": ["integer", "null"], "minimum": 0},
        "grant": {"type": ["string", "null"]},
    });
    json!({"application/json": {"schema": {"type": "object", "properties": properties, "additionalProperties": false}}})
}

fn fault(pointer: &str, detail: impl Into<String>) -> Error {
    Error::Fields(vec![FieldFault { pointer: pointer.to_owned(), detail: detail.into() }])
}

/// A filter of a body, as the parameters of a list.
fn params(filter: &Map<String, Value>, known: &[Param]) -> Result<Params> {
    let mut pairs = Vec::new();
    for (name, value) in filter {
        let mut add = |value: &Value| -> Result<()> {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(fault(&format!("/filter/{name}"), "give a text, or a list of texts"));
                }
            };
            pairs.push((name.clone(), text));
            Ok(())
        };
        match value {
            Value::Null => {}
            Value::Array(values) => values.iter().try_for_each(add)?,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => add(value)?,
        }
    }
    let params = Params::of(pairs);
    params.check(known.iter()).map_err(|error| fault("/filter", error.to_string()))?;
    Ok(params)
}

impl ChangeBody {
    pub fn audit(&self, caller: &Caller, route: &str) -> Audit {
        let yes = self.confirm.is_some();
        Audit { reason: self.reason.clone(), force: self.force, yes, ..caller.audit(route) }
    }

    /// Force is an admin's.
    pub fn check_role(&self, caller: &Caller) -> Result<()> {
        match caller.role {
            Role::Admin => Ok(()),
            Role::Viewer | Role::Operator | Role::Worker if !self.force => Ok(()),
            Role::Viewer | Role::Operator | Role::Worker => Err(Error::told(
                Code::Forbidden,
                "\"force\" needs the role admin; give \"confirm\" and the number instead",
            )),
        }
    }

    /// What is asked, by the word for it.
    pub async fn ask(&self, verb: &str, insight: &Insight, caller: &Caller, route: &str) -> Result<PlanAsk> {
        self.check_role(caller)?;
        let audit = self.audit(caller, route);
        let filter = self.partitions(insight).await?;
        let verb = match verb {
            "backfill" => {
                return Ok(PlanAsk::Backfill { filter, force_pending: self.force_pending, audit });
            }
            "retry" => {
                let Self { clear_terminal, allow_missing_raw, stale, grant, .. } = *self;
                Verb::Retry { clear_terminal, allow_missing_raw, stale, grant }
            }
            "reprocess" if self.withdraw => Verb::Withdraw,
            "reprocess" => Verb::Reprocess,
            "mark-terminal" => Verb::MarkTerminal,
            "clear-terminal" => Verb::ClearTerminal,
            "pause" => Verb::Pause,
            "resume" => Verb::Resume,
            other => {
                let known = "retry, reprocess, backfill, mark-terminal, clear-terminal, pause, resume";
                return Err(Error::not_found(format!("{other:?} is no change of partitions; known: {known}")));
            }
        };
        Ok(PlanAsk::Partitions(Request { verb, filter, audit, limit: self.limit }))
    }

    async fn partitions(&self, insight: &Insight) -> Result<Filter> {
        let mut filter = filter::partitions(&params(&self.filter, FILTER)?, insight).await?;
        if filter.is_empty() {
            if !self.all {
                let detail = "the filter is empty; name something, or say \"all\": true";
                return Err(Error::told(Code::EmptyFilter, detail));
            }
            filter.since = Some(insight.bounds().earliest);
        }
        Ok(filter)
    }

    /// What is asked of runs.
    pub async fn ask_runs(&self, verb: RunVerb, insight: &Insight, caller: &Caller, route: &str) -> Result<PlanAsk> {
        self.check_role(caller)?;
        let filter = filter::runs(&params(&self.filter, RUN_FILTER)?, insight).await?;
        let runs = match (&self.runs, filter.is_empty()) {
            (Some(runs), true) => RunSelection::Ids { runs: runs.clone() },
            (Some(_), false) => return Err(fault("/runs", "give either runs or a filter")),
            (None, false) => RunSelection::Filter(filter),
            (None, true) if self.all => RunSelection::Filter(RunFilter { since: Some(EVER), ..RunFilter::default() }),
            (None, true) => {
                let detail = "the filter is empty; name something, or say \"all\": true";
                return Err(Error::told(Code::EmptyFilter, detail));
            }
        };
        Ok(PlanAsk::Runs(RunRequest { verb, runs, audit: self.audit(caller, route) }))
    }

    /// Refuses what has to be confirmed and is not.
    pub fn check_confirmed(&self, count: u64, rails: Rails) -> Result<()> {
        check_confirmed(count, rails, self.confirm, self.force)
    }
}

/// Since when there are runs.
const EVER: redrive_core::time::Timestamp = redrive_core::time::Timestamp::from_micros(0);

/// Refuses a change of so many that has to be confirmed, by the number or by force, and is not.
pub fn check_confirmed(count: u64, rails: Rails, confirm: Option<u64>, force: bool) -> Result<()> {
    let given = Given { yes: confirm == Some(count), force };
    match confirmation(count, rails, given) {
        // A program that calls is not asked about a few.
        Confirmation::None | Confirmation::YesNo => Ok(()),
        Confirmation::TypeNumber | Confirmation::OverLimit => Err(Error::NotConfirmed { matched: count }),
    }
}

/// Something that nobody stops.
pub fn unwatched(never: &AtomicBool, stop_after: Option<u64>) -> Watch<'_> {
    Watch { cancelled: never, progress: &|_| {}, stop_after }
}
