//! Changes of many partitions or runs by a filter: the body that all of them share, and what the number of them asks for.

use std::sync::atomic::AtomicBool;

use redrive_control::runs::RunFilter;
use redrive_control::{Audit, Insight, PlanAsk, Request, RunRequest, RunSelection, RunVerb, Verb, Watch};
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::retry::Grant;
use redrive_core::role::Role;
use redrive_core::safety::{Confirmation, Given, Rails, confirmation};
use redrive_core::whole::Whole;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::filter::{self, FILTER, RUN_FILTER};
use crate::description::{Takes, of_filter};
use crate::error::{Error, Result};
use crate::web::{Caller, Code, Note, Param, Params};

/// The options of a change. Which of them a verb knows is checked with the verb.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeBody {
    /// The verb of a plan; a path names it otherwise
    pub verb: Option<String>,
    #[schemars(schema_with = "any_filter")]
    pub filter: Map<String, Value>,
    /// Runs by their ids, in place of a filter
    pub runs: Option<Vec<RunId>>,
    /// Everything is meant, so that an empty filter is none by mistake
    pub all: bool,
    /// Report what would change, and change nothing
    pub dry_run: bool,
    /// No limits; for admins
    pub force: bool,
    /// How many will change, where there are many
    pub confirm: Option<Whole>,
    /// Why, for the audit trail
    pub reason: Option<Note>,
    /// Change no more than this many, the first in key order
    pub limit: Option<Whole>,
    /// Also terminal ones, whose mark is taken off
    pub clear_terminal: bool,
    /// Also those that have left nothing in the raw sink
    pub allow_missing_raw: bool,
    /// Also pending ones that are not in flight
    pub stale: bool,
    /// So many further attempts, or `full`
    pub grant: Option<Grant>,
    /// Take requests to reprocess back
    pub withdraw: bool,
    /// Also set what is there and finished to pending
    pub force_pending: bool,
}

fn any_filter(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

/// The verbs that change partitions.
pub const VERBS: [&str; 7] = ["retry", "reprocess", "backfill", "mark-terminal", "clear-terminal", "pause", "resume"];

/// The verbs of a plan that change runs.
pub const RETRY_RUNS: &str = "runs-retry";
pub const CANCEL_RUNS: &str = "runs-cancel";

/// The body of a change of partitions.
pub fn of_partitions() -> Value {
    described(&of_filter(FILTER), &["verb", "runs"])
}

/// The body of a change of runs.
pub fn of_runs() -> Value {
    let options =
        ["verb", "limit", "clear_terminal", "allow_missing_raw", "stale", "grant", "withdraw", "force_pending"];
    described(&of_filter(RUN_FILTER), &options)
}

/// The body of a plan: of either, with its verb.
pub fn of_plan() -> Value {
    let planned = |content: Value, verbs: &[&str]| {
        let mut schema = content["application/json"]["schema"].clone();
        schema["properties"]["verb"] = json!({"type": "string", "enum": verbs});
        schema["required"] = json!(["verb"]);
        schema
    };
    let (partitions, runs) = (planned(of_partitions(), &VERBS), planned(of_runs(), &[RETRY_RUNS, CANCEL_RUNS]));
    json!({"application/json": {"schema": {"oneOf": [partitions, runs]}}})
}

fn described(filter: &Value, left_out: &[&str]) -> Value {
    let mut content = Takes::json::<ChangeBody>().content().unwrap_or_default();
    if let Some(properties) = content["application/json"]["schema"]["properties"].as_object_mut() {
        properties.retain(|name, _| !left_out.contains(&name.as_str()));
        properties.insert("filter".to_owned(), filter.clone());
    }
    content
}

/// A filter of a body, as the parameters of a list.
fn params(filter: &Map<String, Value>, known: &[Param]) -> Result<Params> {
    let mut pairs = Vec::new();
    for (name, value) in filter {
        let mut add = |value: &Value| -> Result<()> {
            let Value::String(text) = value else {
                return Err(Error::field(&format!("/filter/{name}"), "give a text, or a list of texts"));
            };
            pairs.push((name.clone(), text.clone()));
            Ok(())
        };
        match value {
            Value::Null => {}
            Value::Array(values) => values.iter().try_for_each(add)?,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => add(value)?,
        }
    }
    let params = Params::of(pairs);
    params.check(known.iter()).map_err(|error| Error::field("/filter", error.to_string()))?;
    Ok(params)
}

impl ChangeBody {
    pub fn audit(&self, caller: &Caller, route: &str) -> Audit {
        let yes = self.confirm.is_some();
        Audit { reason: self.reason.clone().map(Note::text), force: self.force, yes, ..caller.audit(route) }
    }

    /// Force is an admin's.
    pub fn check_role(&self, caller: &Caller) -> Result<()> {
        match caller.role {
            Role::Admin => Ok(()),
            Role::Viewer | Role::Operator | Role::Worker if !self.force => Ok(()),
            Role::Viewer | Role::Operator | Role::Worker => Err(Error::of_code(
                Code::Forbidden,
                "\"force\" needs the role admin; give \"confirm\" and the number instead",
            )),
        }
    }

    /// Refuses an option that would be passed over: its sender means something by it.
    fn check_options(&self, verb: &str) -> Result<()> {
        let is_retry = verb == "retry";
        let options = [
            ("runs", self.runs.is_some(), [RETRY_RUNS, CANCEL_RUNS].contains(&verb)),
            ("limit", self.limit.is_some(), VERBS.contains(&verb) && verb != "backfill"),
            ("clear_terminal", self.clear_terminal, is_retry),
            ("allow_missing_raw", self.allow_missing_raw, is_retry),
            ("stale", self.stale, is_retry),
            ("grant", self.grant.is_some(), is_retry),
            ("withdraw", self.withdraw, verb == "reprocess"),
            ("force_pending", self.force_pending, verb == "backfill"),
        ];
        match options.into_iter().find(|(_, is_given, is_known)| *is_given && !is_known) {
            Some((name, ..)) => {
                Err(Error::unusable_field(&format!("/{name}"), format!("{verb} has no use for {name}; leave it out")))
            }
            None => Ok(()),
        }
    }

    /// What is asked, by the word for it.
    pub async fn ask(&self, verb: &str, insight: &Insight, caller: &Caller, route: &str) -> Result<PlanAsk> {
        self.check_role(caller)?;
        self.check_options(verb)?;
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
                let known = VERBS.join(", ");
                return Err(Error::not_found(format!("{other:?} is no change of partitions; known: {known}")));
            }
        };
        Ok(PlanAsk::Partitions(Request { verb, filter, audit, limit: self.limit.map(|Whole(limit)| limit.into()) }))
    }

    async fn partitions(&self, insight: &Insight) -> Result<Filter> {
        let mut filter = filter::partitions(&params(&self.filter, FILTER)?, insight).await?;
        if filter.is_empty() {
            if !self.all {
                let detail = "the filter is empty; name something, or say \"all\": true";
                return Err(Error::of_code(Code::EmptyFilter, detail));
            }
            filter.since = Some(insight.bounds().earliest);
        }
        Ok(filter)
    }

    /// What is asked of runs.
    pub async fn ask_runs(&self, verb: RunVerb, insight: &Insight, caller: &Caller, route: &str) -> Result<PlanAsk> {
        self.check_role(caller)?;
        self.check_options(match verb {
            RunVerb::Retry => RETRY_RUNS,
            RunVerb::Cancel => CANCEL_RUNS,
        })?;
        let filter = filter::runs(&params(&self.filter, RUN_FILTER)?, insight).await?;
        let runs = match (&self.runs, filter.is_empty()) {
            (Some(runs), true) => RunSelection::Ids { runs: runs.clone() },
            (Some(_), false) => return Err(Error::unusable_field("/runs", "give either runs or a filter")),
            (None, false) => RunSelection::Filter(filter),
            (None, true) if self.all => RunSelection::Filter(RunFilter { since: Some(EVER), ..RunFilter::default() }),
            (None, true) => {
                let detail = "the filter is empty; name something, or say \"all\": true";
                return Err(Error::of_code(Code::EmptyFilter, detail));
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
pub fn check_confirmed(count: u64, rails: Rails, confirm: Option<Whole>, force: bool) -> Result<()> {
    let given = Given { yes: confirm.map(|Whole(confirm)| confirm.into()) == Some(count), force };
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
