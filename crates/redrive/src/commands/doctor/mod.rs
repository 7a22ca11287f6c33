//! `redrive doctor`: looks at everything, changes nothing, and names what is wrong.

mod attempts;
mod clock;
mod findings;
mod partitions;
mod queues;
mod sink;

use redrive_core::run::Workload;
use redrive_store::raw::RawView;
use redrive_store::{Verified, View};

use super::{Context, look};
use crate::cli::Doctor;
use crate::config::Config;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::progress::{Progress, Style};
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
    if let Err(error) = config.check_plan() {
        findings.add(Finding::broken("sources", format!("no worker can start: {error}")));
    } else if let Err(error) = config.plan(Workload::ALL, &context.environment) {
        // Secrets may well be on other machines only.
        findings.add(Finding::note("sources", format!("a worker cannot start here: {error}")));
    }
    let view = store(config, &mut findings).await;
    if let Some(view) = &view {
        clock::check(view, &mut findings).await;
        audit(view, &mut findings).await;
        queues::check(view, &config.queues, &mut findings).await;
    }
    let raw = raw_sink(config, &mut findings).await;
    if let Some(view) = &view {
        let progress = Progress::start(Style::Partitions, context.global.quiet);
        attempts::check(view, &mut findings).await;
        partitions::check(view, raw.as_ref(), quick, &progress, &mut findings).await;
    }
    findings
}

async fn store(config: &Config, findings: &mut Findings) -> Option<View> {
    match look(config).await {
        Ok(view) => {
            let version = redrive_store::SCHEMA_VERSION;
            findings.add(Finding::good("store", format!("{} is at version {version}", view.place())));
            Some(view)
        }
        Err(error) => {
            findings.add(Finding::unusable("store", error.to_string()));
            None
        }
    }
}

async fn raw_sink(config: &Config, findings: &mut Findings) -> Option<RawView> {
    match RawView::open(&config.raw, &config.raw_options.s3).await {
        Ok(raw) => {
            findings.add(Finding::good("raw sink", format!("{} can be read", config.raw)));
            Some(raw)
        }
        Err(error) => {
            findings.add(Finding::unusable("raw sink", error.to_string()));
            None
        }
    }
}

async fn audit(view: &View, findings: &mut Findings) {
    findings.add(match view.verify_audit().await {
        Ok(Verified::Whole(head)) => Finding::good("audit chain", format!("{} rows, whole", head.seq)),
        Ok(Verified::Broken { seq, why }) => Finding::broken("audit chain", format!("broken at row {seq}: {why}")),
        Err(error) => Finding::unusable("audit chain", error.to_string()),
    });
}
