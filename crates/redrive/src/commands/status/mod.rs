//! `redrive status`: what needs a person, each with the command to type, and then how everything stands.

pub mod show;

use std::time::Duration;

use redrive_control::Insight;
use redrive_control::shape::{Bounded, StatusShape};
use redrive_control::status::{Need, attention};
use redrive_core::key::Source;
use redrive_core::process::Kind;
use redrive_core::time::Timestamp;
use serde::Serialize;

use super::Context;
use crate::cli::{Format, Status};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

/// How long a look lasts before the next.
const EVERY: Duration = Duration::from_secs(2);

/// Something to do, with the command that does it.
#[derive(Debug, Serialize)]
pub struct Todo {
    what: String,
    count: Bounded,
    since: Option<Timestamp>,
    command: String,
}

#[derive(Debug, Serialize)]
pub struct Overview {
    needs_attention: Vec<Todo>,
    #[serde(flatten)]
    status: StatusShape,
}

pub async fn run(args: &Status, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let source: Option<Source> = match &args.source {
        Some(name) => Some(name.parse().map_err(|error| Error::Usage(format!("--source: {error}")))?),
        None => None,
    };
    let insight = context.insight(&config).await?;
    loop {
        let overview = look(&insight, source.as_ref(), &config.fingerprint).await?;
        match context.global.output {
            Format::Json | Format::Jsonl => output::json(&overview)?,
            Format::Table | Format::Csv => {
                let lines = show::lines(&overview, output::terminal::width(&context.environment));
                // Back to the first line, and nothing below.
                let clear = if args.watch { "\x1b[H\x1b[2J" } else { "" };
                output::line(&format!("{clear}{}", lines.join("\n")))?;
            }
        }
        if !args.watch {
            return Ok(Exit::Done);
        }
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Done),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn look(insight: &Insight, source: Option<&Source>, config: &str) -> Result<Overview> {
    let status = insight.status(source, config).await?;
    let todo = |found: redrive_control::status::Attention| Todo {
        what: found.need.what(),
        command: command(&found.need),
        count: found.count,
        since: found.since,
    };
    Ok(Overview { needs_attention: attention(&status).into_iter().map(todo).collect(), status })
}

/// The command that meets a need.
fn command(need: &Need) -> String {
    match need {
        Need::NoWorker { has_workers: true, .. } => "redrive doctor".to_owned(),
        Need::NoWorker { has_workers: false, .. } => "redrive worker".to_owned(),
        Need::Breaker { source, customer: None, .. } => format!("redrive state hold lift --source {source}"),
        Need::Breaker { source, customer: Some(customer), .. } => {
            format!("redrive state hold lift --source {source} --customer-id {customer}")
        }
        Need::NoRunWorker { workload } => format!("redrive worker --workload {workload}"),
        Need::NoDaemon => "redrive daemon".to_owned(),
        Need::Silent { kind, .. } => match kind {
            Kind::Worker => "redrive worker".to_owned(),
            Kind::Daemon => "redrive daemon".to_owned(),
            Kind::Server => "redrive serve".to_owned(),
        },
        Need::Drift { pids, .. } => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("kill -HUP {}", pids.join(" "))
        }
        Need::Final { group, .. } => format!("redrive state retry --group {group}"),
        Need::Exhausted { group, .. } => format!("redrive state retry --group {group} --clear-terminal"),
        Need::DeadRuns { workload } => format!("redrive runs groups --workload {workload}"),
    }
}
