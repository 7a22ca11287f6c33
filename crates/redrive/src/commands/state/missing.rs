//! `state inspect --missing`: what calendars expect and is not there.

use redrive_control::{ControlPlane, expected};
use redrive_core::filter::Filter;
use serde_json::json;

use crate::cli::Format;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

pub async fn list(filter: &Filter, limit: u64, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let (mut count, mut keys) = (0u64, Vec::new());
    'search: for (stretch, latest) in expected::stretches(plane, filter) {
        let Some(gap) = expected::gap(plane, stretch, latest).await? else { continue };
        for key in gap.keys() {
            if count >= limit {
                break 'search;
            }
            count += 1;
            if count == 1 && context.global.output == Format::Csv {
                output::csv_header(&output::KEY)?;
            }
            match context.global.output {
                Format::Jsonl => output::json(&key)?,
                Format::Table => output::line(&output::key(&key).join("  "))?,
                Format::Csv => output::csv(&output::key(&key))?,
                Format::Json => keys.push(key),
            }
        }
    }
    if context.global.output == Format::Json {
        output::json(&json!({"missing": keys}))?;
    }
    if count == 0 {
        output::nothing("nothing is missing", &output::KEY, &context.global)?;
    }
    if count >= limit && !context.global.quiet {
        output::note(&format!("the first {limit} are shown; --limit gives more"));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}
