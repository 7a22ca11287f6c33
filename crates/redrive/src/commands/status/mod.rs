//! `redrive status`: what needs a person, each with the command to type, and then how everything stands.

mod show;

use std::time::Duration;

use redrive_core::key::Source;

use super::Context;
use crate::cli::{Format, Status};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::remedy;

/// How long a look lasts before the next.
const EVERY: Duration = Duration::from_secs(2);

pub async fn run(args: &Status, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let source: Option<Source> = match &args.source {
        Some(name) => Some(name.parse().map_err(|error| Error::Usage(format!("--source: {error}")))?),
        None => None,
    };
    let insight = context.insight(&config).await?;
    loop {
        let overview = insight.overview(source.as_ref(), &config.fingerprint, remedy::of_need).await?;
        match context.global.output {
            Format::Json | Format::Jsonl => output::json(&overview)?,
            Format::Csv => {
                let names = ["what", "count", "since", "command"];
                output::csv_header(&names)?;
                for need in &overview.needs_attention {
                    output::csv(&output::cells(&names, &serde_json::to_value(need)?))?;
                }
            }
            Format::Table => {
                let lines = show::lines(&overview, context.global.screen.width);
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
