//! `redrive doctor`: looks at everything, changes nothing, and names what is wrong.

mod attempts;
mod clock;
mod customers;
mod findings;
mod hosts;
mod partitions;
mod processes;
mod queues;
mod setup;
mod sink;

use redrive_core::run::Workload;
use redrive_store::raw::{RawUrl, RawView};
use redrive_store::{Depth, Integrity, Verified, View};

use super::sink::look_into_sink;
use super::{Context, look};
use crate::cli::Doctor;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::progress::{Progress, Style};
use crate::remedy;
pub use findings::{Finding, Findings};

pub async fn run(args: &Doctor, context: &Context) -> Result<Exit> {
    let findings = examine(&context.config()?, args.quick, context).await;
    output::ignore_broken_pipe(findings.report())?;
    Ok(findings.exit())
}

/// Looks at everything.
pub async fn examine(config: &Config, quick: bool, context: &Context) -> Findings {
    let mut findings = Findings::new(context.global.output);
    findings.add(match &config.file {
        Some(file) => Finding::good("configuration", format!("{} is understood", file.display())),
        None => Finding::good("configuration", "there is no redrive.toml; the defaults serve"),
    });
    match config.plan(Workload::ALL, &context.environment) {
        Err(error) => findings.add(Finding::broken("sources", format!("no worker can start: {error}"))),
        Ok(plan) => {
            setup::check(config, &plan, &mut findings);
            hosts::check(&plan, &mut findings).await;
        }
    }
    let view = store(config, context, &mut findings).await;
    if let Some(view) = &view {
        integrity(view, quick, &mut findings).await;
        clock::check(view, &mut findings).await;
        audit(view, &mut findings).await;
        queues::check(view, &config.queues, &mut findings).await;
        processes::check(view, config, &mut findings).await;
    }
    let raw = raw_sink(config, view.as_ref(), &mut findings).await;
    if let Some(view) = &view {
        let progress = Progress::start(Style::Partitions, context.global.quiet);
        attempts::check(view, &mut findings).await;
        partitions::check(view, raw.as_ref(), quick, &progress, &mut findings).await;
    }
    findings
}

async fn store(config: &Config, context: &Context, findings: &mut Findings) -> Option<View> {
    match look(config, context).await {
        Ok(view) => {
            let version = redrive_store::SCHEMA_VERSION;
            findings.add(Finding::good("store", format!("{} is at version {version}", view.place())));
            Some(view)
        }
        Err(error) => {
            findings.add(Finding::unusable("store", remedy::in_words(&error.into())));
            None
        }
    }
}

async fn raw_sink(config: &Config, view: Option<&View>, findings: &mut Findings) -> Option<RawView> {
    let opened = match view {
        Some(view) => look_into_sink(config, view).await,
        None => RawView::open(&config.raw, &config.raw_options.s3).await.map_err(Error::from),
    };
    match opened {
        Ok(raw) => {
            findings.add(match &config.raw {
                RawUrl::File(path) if !path.exists() => {
                    Finding::note("raw sink", format!("{} does not exist yet; the first worker makes it", config.raw))
                }
                RawUrl::File(_) | RawUrl::S3 { .. } => Finding::good("raw sink", format!("{} can be read", config.raw)),
            });
            Some(raw)
        }
        Err(error) => {
            findings.add(Finding::unusable("raw sink", remedy::in_words(&error)));
            None
        }
    }
}

/// Has the database check itself: what is broken below our rows shows in none of them.
async fn integrity(view: &View, quick: bool, findings: &mut Findings) {
    let depth = if quick { Depth::Quick } else { Depth::Full };
    findings.add(match view.integrity(depth).await {
        Ok(Integrity::Sound) => Finding::good("integrity", "the database finds itself sound"),
        Ok(Integrity::Unchecked(why)) => Finding::good("integrity", format!("not checked: {why}")),
        Ok(Integrity::Damaged(faults)) => {
            let todo = "stop all that use the database, and put a backup in its place";
            Finding::broken("integrity", format!("the database is damaged: {}; {todo}", faults.join("; ")))
        }
        Err(error) => Finding::unusable("integrity", error.to_string()),
    });
}

async fn audit(view: &View, findings: &mut Findings) {
    findings.add(match view.verify_audit().await {
        Ok(Verified::Whole(head)) => Finding::good("audit chain", format!("{} rows, whole", head.seq)),
        Ok(Verified::Broken { seq, why }) => Finding::broken("audit chain", format!("broken at row {seq}: {why}")),
        Err(error) => Finding::unusable("audit chain", error.to_string()),
    });
}
