//! `redrive doctor`: looks at everything, changes nothing, and names what is wrong.

use redrive_store::raw::RawView;
use redrive_store::{Open, Options, SCHEMA_VERSION, Schema, Store, Verified};
use serde::Serialize;

use super::Context;
use crate::cli::Format;
use crate::config::Config;
use crate::exit::Exit;
use crate::output;

#[derive(Debug, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub ok: bool,
    pub says: String,
}

impl Finding {
    fn good(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, ok: true, says: says.into() }
    }

    fn bad(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, ok: false, says: says.into() }
    }
}

pub async fn run(context: &Context) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let findings = examine(&config).await;
    report(&findings, context)?;
    Ok(if findings.iter().all(|finding| finding.ok) { Exit::Done } else { Exit::Unavailable })
}

/// Looks at everything.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![match &config.file {
        Some(file) => Finding::good("configuration", format!("{} is understood", file.display())),
        None => Finding::good("configuration", "there is no redrive.toml; the defaults serve"),
    }];
    store(config, &mut findings).await;
    findings.push(match RawView::open(&config.raw, &config.raw_options.s3).await {
        Ok(_) => Finding::good("raw sink", format!("{} can be read", config.raw)),
        Err(error) => Finding::bad("raw sink", error.to_string()),
    });
    findings
}

async fn store(config: &Config, findings: &mut Vec<Finding>) {
    // Looking must not make a file where there is none.
    if let redrive_store::StoreUrl::Sqlite(path) = &config.store
        && !path.exists()
    {
        findings.push(Finding::bad("store", format!("{} does not exist; run `redrive init`", path.display())));
        return;
    }
    let store = match Store::open(&config.store, Open::Untouched, Options::default()).await {
        Ok(store) => store,
        Err(error) => return findings.push(Finding::bad("store", error.to_string())),
    };
    match store.schema().await {
        Ok(Schema::Redrive { version, .. }) if version == SCHEMA_VERSION => {
            findings.push(Finding::good("store", format!("{} is at version {version}", store.place())));
        }
        Ok(Schema::Redrive { version, .. }) if version > SCHEMA_VERSION => {
            let known = format!("this program knows {SCHEMA_VERSION}; upgrade redrive");
            findings.push(Finding::bad("store", format!("{} is at version {version}, and {known}", store.place())));
            return;
        }
        Ok(Schema::Redrive { .. } | Schema::Empty) => {
            let todo = "is not up to date; run `redrive migrate`";
            findings.push(Finding::bad("store", format!("{} {todo}", store.place())));
            return;
        }
        Ok(Schema::Foreign) => {
            findings.push(Finding::bad("store", format!("{} holds tables of something else", store.place())));
            return;
        }
        Err(error) => return findings.push(Finding::bad("store", error.to_string())),
    }
    findings.push(match store.view().verify_audit().await {
        Ok(Verified::Whole(head)) => Finding::good("audit chain", format!("{} rows, whole", head.seq)),
        Ok(Verified::Broken { seq, why }) => Finding::bad("audit chain", format!("broken at row {seq}: {why}")),
        Err(error) => Finding::bad("audit chain", error.to_string()),
    });
}

fn report(findings: &[Finding], context: &Context) -> anyhow::Result<()> {
    match context.global.output {
        Format::Json => output::json(&serde_json::json!({"checks": findings}))?,
        Format::Jsonl => findings.iter().try_for_each(output::json)?,
        Format::Table | Format::Csv => {
            let rows = findings.iter().map(|finding| {
                let mark = if finding.ok { "ok" } else { "WRONG" };
                vec![mark.to_owned(), finding.check.to_owned(), finding.says.clone()]
            });
            output::line(&output::table(&["", "check", "finding"], rows.collect()));
        }
    }
    Ok(())
}
